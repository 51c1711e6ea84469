//! The reader of the published files, on a small data set of invented numbers.

use super::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Days of the invented data.
const DAYS: usize = 60;

/// An invented data set that is written, and then spoiled.
struct Invented {
    folder: PathBuf,
    constants: Value,
    fitted: Value,
    arrays: BTreeMap<&'static str, (Vec<usize>, Vec<f64>)>,
}

impl Drop for Invented {
    fn drop(&mut self) {
        // A folder that was never written is not there.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Invented {
    fn new(test: &str) -> Self {
        let states = |value: f64| json!(vec![value; N_STATES]);
        let daily = |value: f64| (vec![DAYS, N_STATES], vec![value; DAYS * N_STATES]);
        let mut payments = vec![0.0; DAYS];
        payments[42] = 3e7 * 51.0;
        let mut policy = vec![2.0; DAYS * N_STATES];
        policy[40 * N_STATES..].fill(7.0);
        Invented {
            folder: std::env::temp_dir()
                .join(format!("warp-covid19-{}-{test}", std::process::id())),
            constants: json!({
                "NUM_STRINGENCY_LEVELS": 10, "SIR_MORTALITY": 0.02, "SIR_GAMMA": 0.1,
                "US_STATE_POPULATION": vec![1_000_000; N_STATES], "US_POPULATION": 51_000_000,
                "GDP_PER_CAPITA": 60_000,
            }),
            fitted: json!({
                "POLICY_START_DATE": "2020-01-01", "BETA_DELAY": 29, "FILTER_LEN": 600,
                "BETA_SLOPES": states(-0.01), "BETA_INTERCEPTS": states(0.2),
                "UNEMPLOYMENT_BIAS": states(3.0), "CONV_LAMBDAS": [30, 60, 120, 250, 500],
                "GROUPED_CONVOLUTIONAL_FILTER_WEIGHTS": vec![vec![vec![0.1]]; N_STATES * N_FILTERS],
                "VALUE_OF_LIFE": 10_000_000,
                "INFERRED_WEIGHTAGE_ON_AGENT_HEALTH_INDEX": states(0.7),
                "INFERRED_WEIGHTAGE_ON_PLANNER_HEALTH_INDEX": 0.7,
                "MIN_MARGINAL_AGENT_HEALTH_INDEX": states(-0.01),
                "MAX_MARGINAL_AGENT_HEALTH_INDEX": states(0.0),
                "MIN_MARGINAL_AGENT_ECONOMIC_INDEX": states(0.002),
                "MAX_MARGINAL_AGENT_ECONOMIC_INDEX": states(0.003),
                "MIN_MARGINAL_PLANNER_HEALTH_INDEX": -0.01,
                "MAX_MARGINAL_PLANNER_HEALTH_INDEX": 0.0,
                "MIN_MARGINAL_PLANNER_ECONOMIC_INDEX": 0.002,
                "MAX_MARGINAL_PLANNER_ECONOMIC_INDEX": 0.003,
            }),
            arrays: BTreeMap::from([
                ("policy", (vec![DAYS, N_STATES], policy)),
                ("subsidy", (vec![DAYS, 1], payments)),
                ("susceptible", daily(990_000.0)),
                ("infected", daily(-5.0)),
                ("recovered", daily(10_000.0)),
                ("deaths", daily(150.0)),
                ("vaccinated", daily(1000.0)),
                ("unemployed", daily(20_000.0)),
            ]),
        }
    }

    fn write(&self) -> String {
        std::fs::create_dir_all(&self.folder).unwrap();
        let write =
            |file: &str, bytes: &[u8]| std::fs::write(self.folder.join(file), bytes).unwrap();
        write("model_constants.json", self.constants.to_string().as_bytes());
        write("fitted_params.json", self.fitted.to_string().as_bytes());
        let arrays = self.arrays.iter().map(|(name, (shape, data))| (*name, &shape[..], &data[..]));
        write("real_world_data.npz", &crate::numpy::tests::npz(arrays));
        format!("data = {:?}\nstart_date = \"2020-02-10\"\nepisode_length = 10\n", self.folder)
    }

    /// The sentence with which this data set is refused.
    fn refused(&self, keys: &str) -> String {
        let text = self.write() + keys;
        let config = Covid19Config::from_table(&text.parse().unwrap()).unwrap();
        Covid19::new(&config).unwrap_err().to_string()
    }
}

#[test]
fn a_data_set_is_read_and_cut_at_its_start() {
    let invented = Invented::new("reads");
    let mut one = make(&invented.write());
    one.edit(|state| {
        assert_eq!((state.susceptible[50], state.recovered[50]), (990_000.0, 10_000.0));
        assert_eq!((state.vaccinated[50], state.deaths[50]), (1000.0, 200.0));
        // 2020-02-10 is row 40, where level 7 begins.
        assert_eq!(state.stringency_level[50], 7);
        // One change from 1 to 2 forty days ago, one by five today.
        let expected = f64::from(-40.0 / 30.0f32).exp() + 5.0;
        close(state.filtered[50], expected as f32, 1e-6);
    });
    // Twelve days back: level 2; thirty: the same; before the data: 1.
    assert_eq!(one.env().tables.past_stringency[12 * N_STATES], 2);
    assert_eq!(one.env().tables.past_stringency[41 * N_STATES], 1);
    act(&mut one, &[0], 0);
    one.edit(|state| assert_eq!(state.deaths[0], (state.recovered[0] - 1000.0) / 50.0));
}

#[test]
fn real_data_and_policies_are_replayed_whatever_is_done() {
    let invented = Invented::new("replays");
    let mut one = make(&(invented.write() + "use_real_world_data = true"));
    let mut levels = Vec::new();
    for t in 1..=10 {
        act(&mut one, &[1], 20);
        one.edit(|state| {
            levels.push(*state.subsidy_level);
            assert_eq!((state.infected[0], state.deaths[0]), (0.0, 150.0), "step {t}");
            assert_eq!((state.stringency_level[0], state.unemployed[0]), (7, 20_000.0));
        });
        assert!(one.action_mask(GOVERNOR).iter().all(|allowed| *allowed == 1));
    }
    // 30 USD per head are a twentieth of 20,000 a year over 90 days, 0.12 levels: none.
    assert_eq!(levels, [0; 10]);
    let mut generous = Invented::new("replays_payments");
    let payments = &mut generous.arrays.get_mut("subsidy").unwrap().1;
    (payments[42], payments[45]) = (5.1e7 * 500.0, 5.1e7 * 250.0);
    let keys = generous.write() + "use_real_world_policies = true\nsubsidy_interval = 5";
    let mut one = make(&keys);
    let levels: Vec<i32> = (0..10)
        .map(|_| {
            act(&mut one, &[1], 20);
            let mut level = 0;
            one.edit(|state| level = *state.subsidy_level);
            level
        })
        .collect();
    // A level is 13.70 USD per head over five days: 36 and 18 of them, from rows 42 and 45 on.
    assert_eq!(levels, [0, 0, 36, 36, 36, 54, 54, 18, 18, 18]);
}

#[test]
fn bad_data_are_refused_in_one_sentence_that_names_them() {
    let fresh = || Invented::new("refused");
    let refused = |spoil: &dyn Fn(&mut Invented), keys: &str| {
        let mut invented = fresh();
        spoil(&mut invented);
        invented.refused(keys)
    };
    let set = |name: &'static str, at: usize, value: f64| {
        move |invented: &mut Invented| invented.arrays.get_mut(name).unwrap().1[at] = value
    };
    let nan = refused(&set("infected", 40 * N_STATES + 3, f64::NAN), "");
    assert!(nan.contains("\"infected\" for state 3") && nan.starts_with("start_date"), "{nan}");
    let later = set("infected", 45 * N_STATES + 3, f64::NAN);
    assert!(refused(&later, "use_real_world_data = true").contains("for state 3 on day 5"));
    // Without replay a later day is not needed.
    let mut unneeded = fresh();
    later(&mut unneeded);
    make(&unneeded.write());
    assert!(refused(&set("policy", 7, 11.0), "").contains("\"policy\" holds 11"));
    let shape = |i: &mut Invented| i.arrays.get_mut("deaths").unwrap().0 = vec![N_STATES, DAYS];
    assert!(refused(&shape, "").contains("\"deaths\" has shape [51, 60], but [60, 51] is needed"));
    let lacks = |i: &mut Invented| drop(i.arrays.remove("recovered"));
    assert!(refused(&lacks, "").contains("lacks the array \"recovered\""));
    for key in ["BETA_SLOPES", "VALUE_OF_LIFE", "POLICY_START_DATE", "CONV_LAMBDAS"] {
        let lacks = |i: &mut Invented| drop(i.fitted.as_object_mut().unwrap().remove(key));
        assert!(
            refused(&lacks, "")
                .contains(&format!("fitted_params.json: it lacks the key \"{key}\""))
        );
    }
    let short = |i: &mut Invented| i.constants["US_STATE_POPULATION"] = json!([1, 2]);
    assert!(refused(&short, "").contains("has 2 numbers, not 51"));
    let text = |i: &mut Invented| i.fitted["BETA_SLOPES"] = json!("steep");
    assert!(refused(&text, "").contains("contains something other than numbers"));
    let levels = |i: &mut Invented| i.constants["NUM_STRINGENCY_LEVELS"] = json!(9);
    assert!(refused(&levels, "").contains("NUM_STRINGENCY_LEVELS is 9"));
    let long = refused(&|_| {}, "use_real_world_policies = true\nsubsidy_interval = 0");
    assert!(long.starts_with("subsidy_interval = 0"), "{long}");
}

#[test]
fn dates_and_folders_out_of_reach_are_refused() {
    let with = |keys: &[(&str, &str)]| {
        let invented = Invented::new("dates");
        let mut table: warp_core::toml::Table = invented.write().parse().unwrap();
        table.extend(keys.iter().map(|(k, v)| (k.to_string(), (*v).into())));
        let config = Covid19Config::from_table(&table).unwrap();
        Covid19::new(&config).unwrap_err().to_string()
    };
    for date in ["2019-12-31", "2020-01-28", "2020-03-01"] {
        let sentence = with(&[("start_date", date)]);
        assert!(sentence.contains("a start from 2020-01-29 to 2020-02-29"), "{sentence}");
    }
    let missing = with(&[("data", "/no/such/folder")]);
    assert!(
        missing.starts_with("data = \"/no/such/folder\": fitted_params.json: it cannot be read")
    );
    let invented = Invented::new("cut");
    let keys = invented.write();
    let file = invented.folder.join("real_world_data.npz");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let config = Covid19Config::from_table(&keys.parse().unwrap()).unwrap();
    let sentence = Covid19::new(&config).unwrap_err().to_string();
    assert!(sentence.contains("real_world_data.npz: ") && !sentence.contains('\n'), "{sentence}");
    std::fs::write(invented.folder.join("model_constants.json"), "{").unwrap();
    std::fs::write(&file, bytes).unwrap();
    let sentence = Covid19::new(&config).unwrap_err().to_string();
    assert!(sentence.contains("model_constants.json: it is not valid JSON"), "{sentence}");
}
