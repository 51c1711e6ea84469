//! `warp gradcheck` and `warp bench --train` through the command.
#![expect(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, which helpers lack"
)]

mod warp_command;

use warp_command::Folder;

#[test]
fn gradients_are_checked_parameter_by_parameter() {
    let folder = Folder::new("gradcheck");
    let small = ["gradcheck", "pendulum", "--set", "hidden=[8]", "--rows", "24"];
    let said = folder.done(&small);
    assert!(said.stdout.contains("log_std [1]") && said.stdout.contains("all gradients agree"));
    let found = folder.done(&[&small[..], &["--json"]].concat()).json();
    assert_eq!(found["passed"], true);
    let comparisons = found["environments"][0]["comparisons"].as_array().unwrap();
    // Three pairs, two losses; the loss itself and nine tensors.
    assert_eq!(comparisons.len(), 3 * 2 * 10);
    assert!(comparisons.iter().any(|c| c["error"].as_f64().unwrap() > 0.0));
    let said = folder.warp(&["gradcheck", "pendulum", "--rows", "0"]);
    assert!(said.code == Some(2) && said.stderr.contains("rows = 0"), "{said:?}");
}

#[test]
fn training_is_measured_for_several_numbers_of_replicas() {
    let folder = Folder::new("bench-train");
    let args = "bench cartpole --train --replicas 4 16 --seconds 0.05 --set num_steps=16";
    let args: Vec<&str> = args.split(' ').chain(["--set", "hidden=[8]"]).collect();
    let found = folder.done(&[&args[..], &["--json"]].concat()).json();
    let parts = found["training"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    for (part, replicas) in parts.iter().zip([4, 16]) {
        let figure = |key: &str| part[key].as_f64().unwrap();
        assert_eq!(part["replicas"], replicas);
        assert_eq!(part["steps_per_iteration"], 16 * replicas);
        assert!(figure("lowest") > 0.0);
        assert!(figure("lowest") <= figure("env_steps_per_second"));
        assert!(figure("env_steps_per_second") <= figure("highest"));
        assert!(figure("collect_ms") > 0.0 && figure("update_ms") > 0.0);
        assert!(figure("startup_seconds") > 0.0 && figure("first_iteration_seconds") > 0.0);
    }
    let said = folder.done(&args);
    assert!(said.stdout.contains("once: start-up"), "{said:?}");
    let said = folder.warp(&["bench", "cartpole", "--replicas", "4"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}
