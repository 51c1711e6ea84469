//! Links between ranks: what is heard, and what becomes of ranks that are late, gone or strangers.

use super::frame::{Frame, Kind, send};
use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

const QUICK: Duration = Duration::from_millis(400);

fn hello(rank: usize, size: usize) -> Hello {
    Hello { rank, size, token: "t".into(), config: "c".into(), gpu: String::new() }
}

/// The links of `size` ranks over loopback.
fn loopback(size: usize, timeout: Duration) -> Vec<Box<dyn Link>> {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = format!("127.0.0.1:{}", listener.port().unwrap());
    let spokes: Vec<_> = (1..size)
        .map(|rank| {
            let place = place.clone();
            std::thread::spawn(move || join(&place, &hello(rank, size), QUICK, timeout).unwrap())
        })
        .collect();
    let hub = listener.welcome(&hello(0, size), Duration::from_secs(10), timeout).unwrap();
    let spokes = spokes.into_iter().map(|spoke| spoke.join().unwrap());
    std::iter::once(hub).chain(spokes).collect()
}

/// Runs `work` on every rank, a thread each.
fn on_ranks<T: Send>(links: Vec<Box<dyn Link>>, work: impl Fn(World) -> T + Sync) -> Vec<T> {
    let size = links.len();
    std::thread::scope(|scope| {
        let ranks = links.into_iter().enumerate().map(|(rank, link)| {
            let work = &work;
            scope.spawn(move || work(World::new(rank, size, link)))
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn every_rank_hears_all_in_their_order() {
    let long = Duration::from_secs(20);
    for links in [threads(3, long), loopback(3, long)] {
        let heard = on_ranks(links, |world| {
            let rank = world.rank() as f64;
            let mut sums = Vec::new();
            for round in 0..50 {
                let all = world.all_gather_f64("numbers", &[rank, f64::from(round)]).unwrap();
                assert_eq!(all.len(), 6);
                sums.push(all.chunks(2).map(|pair| pair[0] * 10.0 + pair[1]).collect::<Vec<_>>());
            }
            world.barrier("the end").unwrap();
            assert!(world.any("a flag", world.rank() == 2).unwrap());
            let told =
                world.broadcast("a word", format!("of {}", world.rank()).as_bytes()).unwrap();
            let collected = world.gather_to_first("rows", &[world.rank() as u8]).unwrap();
            (sums, told, collected.len())
        });
        assert_eq!(heard[0].0[7], [7.0, 17.0, 27.0]);
        assert!(heard.iter().all(|(sums, told, _)| *sums == heard[0].0 && told == b"of 0"));
        assert_eq!(heard.iter().map(|(_, _, n)| *n).collect::<Vec<_>>(), [3, 0, 0]);
    }
}

#[test]
fn many_ranks_hear_each_other() {
    let long = Duration::from_secs(20);
    for size in [4, 8, 16] {
        for links in [threads(size, long), loopback(size, long)] {
            let heard = on_ranks(links, |world| {
                let own = vec![world.rank() as f32; 1000];
                let sums: Vec<f32> = (0..20)
                    .map(|_| world.all_gather_f32("gradients", &own).unwrap().iter().sum())
                    .collect();
                assert_eq!(world.share(3 * size).len(), 3);
                world.barrier("the end").unwrap();
                sums
            });
            let wanted = 1000.0 * (size * (size - 1) / 2) as f32;
            assert_eq!(heard, vec![vec![wanted; 20]; size]);
        }
        // One that goes away ends it for all.
        for links in [threads(size, long), loopback(size, long)] {
            let errors = on_ranks(links, |world| {
                (world.rank() + 1 < size)
                    .then(|| world.barrier("gradients").unwrap_err().to_string())
            });
            let gone = format!("rank {} disconnected", size - 1);
            assert!(errors.into_iter().flatten().all(|error| error.contains(&gone)), "{gone}");
        }
    }
}

/// Rank 1 of three, as a process that is welcomed and then says `bytes` and no more; what the others come to.
fn beside_one_that_says(bytes: &[u8], then_waits: bool) -> Vec<String> {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = format!("127.0.0.1:{}", listener.port().unwrap());
    let long = Duration::from_secs(if then_waits { 1 } else { 20 });
    std::thread::scope(|scope| {
        let strange = scope.spawn(|| {
            let mut stream = TcpStream::connect(&place).unwrap();
            let text = b"1\n1\n3\nc\n\nt";
            let mut frame = b"WARP\x01\x00".to_vec();
            frame.extend((text.len() as u64).to_le_bytes());
            frame.extend(text);
            stream.write_all(&frame).unwrap();
            let mut welcome = [0; 14];
            stream.read_exact(&mut welcome).unwrap();
            stream.write_all(bytes).unwrap();
            if then_waits {
                // Until rank 0 gives up.
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let last = scope.spawn(|| join(&place, &hello(2, 3), long, long).unwrap());
        let hub = listener.welcome(&hello(0, 3), Duration::from_secs(10), long).unwrap();
        let others = [(0, hub), (2, last.join().unwrap())].map(|(rank, link)| {
            let world = World::new(rank, 3, link);
            scope.spawn(move || world.all_gather("gradients", &[7; 8]).unwrap_err().to_string())
        });
        let errors = others.into_iter().map(|other| other.join().unwrap()).collect();
        strange.join().unwrap();
        errors
    })
}

#[test]
fn a_rank_that_dies_within_a_message_or_sends_garbage_ends_it_for_all() {
    let head = |length: u64| [b"WARP\x04\x09", &length.to_le_bytes()[..], b"gradients"].concat();
    let half = [head(8), vec![7; 3]].concat();
    let endless = head(u64::MAX);
    let other = [b"WARP\x02\x09", &0_u64.to_le_bytes()[..], b"gradients"].concat();
    for (bytes, then_waits, words) in [
        (
            &half[..],
            false,
            "rank 1 disconnected, or sent something unreadable: its connection has ended",
        ),
        (&half, true, "rank 1 has not reached gradients for 1 s"),
        (b"GET / HTTP/1.1\r\n\r\n", true, "sent something unreadable: not a message of a rank"),
        (&endless, true, "sent something unreadable: a message of 18446744073709551615 bytes"),
        (&other, true, "rank 1 sent something that does not belong to a round"),
    ] {
        let since = Instant::now();
        for error in beside_one_that_says(bytes, then_waits) {
            assert!(error.contains(words), "{error}");
        }
        assert!(since.elapsed() < Duration::from_secs(8), "{words}");
    }
}

#[test]
fn a_rank_that_never_comes_is_named_in_time_on_all() {
    for links in [threads(3, QUICK), loopback(3, QUICK)] {
        let since = Instant::now();
        let errors = on_ranks(links, |world| {
            if world.rank() == 2 {
                std::thread::sleep(3 * QUICK);
                return None;
            }
            Some(world.barrier("gradients").unwrap_err().to_string())
        });
        assert!(since.elapsed() < 10 * QUICK);
        for error in errors.into_iter().flatten() {
            assert!(error.contains("rank 2") && error.contains("gradients"), "{error}");
        }
    }
}

#[test]
fn a_rank_that_gives_up_or_goes_away_ends_the_rounds_of_all() {
    let long = Duration::from_secs(20);
    for (gives_up, words) in [(true, "rank 1 gave up: no memory"), (false, "rank 1 disconnected")] {
        for links in [threads(3, long), loopback(3, long)] {
            let since = Instant::now();
            let errors = on_ranks(links, |world| {
                if world.rank() == 1 {
                    if gives_up {
                        world.give_up(&Over::lost("no memory"));
                    }
                    return None;
                }
                // The others have begun to wait, or not.
                std::thread::sleep(QUICK / 8 * world.rank() as u32);
                Some(world.all_gather("moments", &[1]).unwrap_err().to_string())
            });
            assert!(since.elapsed() < long / 2);
            for error in errors.into_iter().flatten() {
                assert!(error.contains(words), "{error}");
            }
        }
    }
}

#[test]
fn all_ranks_end_for_the_kind_of_reason_for_which_one_gave_up() {
    let long = Duration::from_secs(20);
    let errors: [fn() -> Error; 3] = [
        || Error::Invalid("no space".into()),
        || Error::Broken { step: 7, reason: "no space".into() },
        || Error::Ranks("no space".into()),
    ];
    // Rank 0 tells it, or hears it from another: in a round or between two.
    for (error, who, looks) in
        errors.iter().flat_map(|e| [(e, 0, false), (e, 2, false), (e, 2, true)])
    {
        for links in [threads(3, long), loopback(3, long)] {
            let heard = on_ranks(links, |world| {
                if world.rank() == who {
                    world.give_up_for(&error());
                    // A later reason changes nothing.
                    world.give_up(&Over::lost("late"));
                }
                while looks && world.over().is_none() {
                    std::thread::yield_now();
                }
                world.barrier("moments").unwrap_err()
            });
            for (rank, heard) in heard.iter().enumerate() {
                assert_eq!(Cause::of(heard), Cause::of(&error()), "{rank}: {heard}");
                assert!(heard.is_of_other_ranks() && heard.to_string().contains("no space"));
                assert!(
                    rank == who || heard.to_string().contains(&format!("rank {who} gave up: "))
                );
            }
        }
    }
}

#[test]
fn ranks_in_different_rounds_are_told_so() {
    let long = Duration::from_secs(20);
    for links in [threads(2, long), loopback(2, long)] {
        let errors = on_ranks(links, |world| {
            let what = ["gradients", "moments"][world.rank()];
            world.barrier(what).unwrap_err().to_string()
        });
        for error in errors {
            assert!(error.contains("gradients") && error.contains("moments"), "{error}");
        }
    }
}

#[test]
fn strangers_doubles_and_other_versions_do_not_end_a_run() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = format!("127.0.0.1:{}", listener.port().unwrap());
    let others = {
        let place = place.clone();
        std::thread::spawn(move || {
            let mut stranger = TcpStream::connect(&place).unwrap();
            stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let mut claims = TcpStream::connect(&place).unwrap();
            claims.write_all(b"WARP\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff").unwrap();
            let mut old = TcpStream::connect(&place).unwrap();
            let text = b"0\n1\n3\nc\n\nt";
            let mut frame = b"WARP\x01\x00".to_vec();
            frame.extend((text.len() as u64).to_le_bytes());
            frame.extend(text);
            old.write_all(&frame).unwrap();
            let first = {
                let place = place.clone();
                std::thread::spawn(move || join(&place, &hello(1, 3), 4 * QUICK, QUICK))
            };
            std::thread::sleep(QUICK);
            let double = join(&place, &hello(1, 3), QUICK, QUICK).err().unwrap();
            let foreign = Hello { token: "other".into(), ..hello(2, 3) };
            let foreign = join(&place, &foreign, QUICK, QUICK).err().unwrap();
            let last = join(&place, &hello(2, 3), QUICK, QUICK);
            (double, foreign, first.join().unwrap().is_ok(), last.is_ok())
        })
    };
    let hub = listener.welcome(&hello(0, 3), Duration::from_secs(20), QUICK);
    let (double, foreign, first, last) = others.join().unwrap();
    // Another start may succeed, as rank 1 may have been restarted.
    let said = double.to_string();
    assert!(said.contains("rank 1 is already connected") && !double.is_users(), "{said}");
    let said = foreign.to_string();
    assert!(said.contains("does not belong to the run of 3 ranks") && foreign.is_users(), "{said}");
    assert!(hub.is_ok() && first && last);
}

#[test]
fn another_configuration_ends_it_for_all() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = format!("127.0.0.1:{}", listener.port().unwrap());
    let spokes: Vec<_> = [("c", 1), ("d", 2)]
        .map(|(config, rank)| {
            let (place, own) = (place.clone(), Hello { config: config.into(), ..hello(rank, 3) });
            std::thread::spawn(move || {
                std::thread::sleep(QUICK / 2 * (rank as u32 - 1));
                join(&place, &own, QUICK, Duration::from_secs(5)).err().unwrap()
            })
        })
        .into();
    let error = listener.welcome(&hello(0, 3), Duration::from_secs(20), QUICK).err().unwrap();
    let spokes = spokes.into_iter().map(|spoke| spoke.join().unwrap());
    for error in spokes.chain([error]) {
        // No further start would mend it.
        let said = error.to_string();
        assert!(said.contains("rank 2 has another configuration") && error.is_users(), "{said}");
    }
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let error = listener.welcome(&hello(0, 3), QUICK, QUICK).err().unwrap();
    let said = error.to_string();
    assert!(said.contains("rank 1, 2 did not connect within 0.4 s") && !error.is_users(), "{said}");
}

#[test]
fn a_place_that_is_taken_is_the_users_to_change() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = format!("127.0.0.1:{}", listener.port().unwrap());
    let error = Listener::bind(&place).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with(&format!("rank 0 can't listen at {place}: ")), "{said}");
    assert!(error.is_users());
}

#[test]
fn a_rank_that_was_restarted_takes_its_place_again() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = format!("127.0.0.1:{}", listener.port().unwrap());
    let with_gpu = |gpu: &str, rank| Hello { gpu: gpu.into(), ..hello(rank, 3) };
    let (own, restarted, last) = (with_gpu("F", 0), with_gpu("G", 1), with_gpu("H", 2));
    let others = std::thread::spawn(move || {
        // Gone before the last one comes.
        let mut stream = TcpStream::connect(&place).unwrap();
        send(&mut stream, &Frame::new(Kind::Hello, "", &restarted.bytes()), QUICK).unwrap();
        std::thread::sleep(QUICK);
        drop(stream);
        let again = {
            let place = place.clone();
            std::thread::spawn(move || join(&place, &restarted, 4 * QUICK, QUICK).is_ok())
        };
        std::thread::sleep(QUICK);
        (join(&place, &last, QUICK, QUICK).is_ok(), again.join().unwrap())
    });
    let hub = listener.welcome(&own, Duration::from_secs(20), QUICK);
    assert!(hub.is_ok());
    assert_eq!(others.join().unwrap(), (true, true));
}

#[test]
fn ranks_with_gpus_of_different_models_are_refused_on_all() {
    let models = ["A (132 multiprocessors)", "A (132 multiprocessors)", "A (114 multiprocessors)"];
    let checked = |models: [&str; 3]| {
        let check = |world: World| world.check_same_model(models[world.rank()]);
        on_ranks(threads(3, QUICK), check)
    };
    for found in checked(models) {
        let error = found.unwrap_err();
        let words = "rank 0 has A (132 multiprocessors), but rank 2 has A (114 multiprocessors); \
                     the ranks of a run need GPUs of one model";
        // Another start would not mend it.
        assert!(error.to_string() == words && error.is_users(), "{error}");
    }
    assert!(checked([models[0]; 3]).iter().all(Result::is_ok));
    assert!(World::default().check_same_model("any").is_ok());
}
