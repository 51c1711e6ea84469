//! Links between ranks: what is heard, and what becomes of ranks that are late, gone or strangers.

use super::*;
use std::io::Write;
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
                let all = world.gather_f64("numbers", &[rank, f64::from(round)]).unwrap();
                assert_eq!(all.len(), 6);
                sums.push(all.chunks(2).map(|pair| pair[0] * 10.0 + pair[1]).collect::<Vec<_>>());
            }
            world.meet("the end").unwrap();
            assert!(world.any("a flag", world.rank() == 2).unwrap());
            let told = world.tell("a word", format!("of {}", world.rank()).as_bytes()).unwrap();
            let collected = world.collect("rows", &[world.rank() as u8]).unwrap();
            (sums, told, collected.len())
        });
        assert_eq!(heard[0].0[7], [7.0, 17.0, 27.0]);
        assert!(heard.iter().all(|(sums, told, _)| *sums == heard[0].0 && told == b"of 0"));
        assert_eq!(heard.iter().map(|(_, _, n)| *n).collect::<Vec<_>>(), [3, 0, 0]);
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
            Some(world.meet("gradients").unwrap_err().to_string())
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
    for (gives_up, words) in [(true, "rank 1 gave up: no memory"), (false, "rank 1 is gone")] {
        for links in [threads(3, long), loopback(3, long)] {
            let since = Instant::now();
            let errors = on_ranks(links, |world| {
                if world.rank() == 1 {
                    if gives_up {
                        world.give_up("no memory");
                    }
                    return None;
                }
                // The others have begun to wait, or not.
                std::thread::sleep(QUICK / 8 * world.rank() as u32);
                Some(world.gather("moments", &[1]).unwrap_err().to_string())
            });
            assert!(since.elapsed() < long / 2);
            for error in errors.into_iter().flatten() {
                assert!(error.contains(words), "{error}");
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
            world.meet(what).unwrap_err().to_string()
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
    assert!(double.contains("there is a rank 1 already"), "{double}");
    assert!(foreign.contains("is not of the run of 3 ranks"), "{foreign}");
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
    assert!(error.contains("rank 2 has another configuration"), "{error}");
    for spoke in spokes {
        let error = spoke.join().unwrap();
        assert!(error.contains("rank 2 has another configuration"), "{error}");
    }
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let error = listener.welcome(&hello(0, 3), QUICK, QUICK).err().unwrap();
    assert!(error.contains("rank 1, 2 has not come within 0.4 s"), "{error}");
}
