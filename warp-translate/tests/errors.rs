//! What is not supported in a body is said with its line and the better form.

use std::path::Path;
use warp_translate::{Diagnostic, translate, translate_functions};

/// Writes a file and translates its function `f`.
fn of(name: &str, text: &str) -> Result<String, Vec<Diagnostic>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let file = folder.join(format!("{name}.rs"));
    std::fs::write(&file, text).expect("the file can be written");
    translate_functions(&file, &["f"])
}

/// Line, part of the sentence, and a body that gets it.
const CATALOGUE: &[(usize, &str, &str)] = &[
    (1, "f64 is not supported", "fn f(x: f64) -> f32 { 0.0 }"),
    (1, "`u16` is not supported", "fn f(x: u16) -> f32 { 0.0 }"),
    (2, "`math::min`", "fn f(x: f32) -> f32 {\n    x.min(1.0)\n}"),
    (2, "`math::sin`", "fn f(x: f32) -> f32 {\n    x.sin()\n}"),
    (2, "`math::modulo`", "fn f(x: f32) -> f32 {\n    x.rem_euclid(2.0)\n}"),
    (2, "`a * b + c`", "fn f(x: f32) -> f32 {\n    x.mul_add(2.0, 1.0)\n}"),
    (2, "`for i in 0..x.len()`", "fn f(x: &[f32]) -> f32 {\n    x.iter().sum()\n}"),
    (
        3,
        "`for i in 0..x.len()`",
        "fn f(x: &[f32]) -> f32 {\n    let mut s = 0.0;\n    for y in x { s += y; }\n    s\n}",
    ),
    (2, "compare first", "fn f(x: i32) -> i32 {\n    x.checked_add(1).unwrap()\n}"),
    (2, "`if` or `match`", "fn f(x: i32) -> i32 {\n    if let 3 = x { 1 } else { 2 }\n}"),
    (2, "labels are not supported", "fn f(x: i32) {\n    'a: loop { break 'a; }\n}"),
    (2, "`println!` is not supported", "fn f(x: i32) {\n    println!(\"{x}\");\n}"),
    (2, "numbers and booleans", "fn f() {\n    let a = \"text\";\n}"),
    (1, "is generic", "fn f<T>(x: T) {}"),
    (1, "returns a reference", "fn f(x: &[f32]) -> &[f32] { x }"),
    (2, "calls itself", "fn f(x: i32) -> i32 {\n    if x > 0 { f(x - 1) } else { 0 }\n}"),
    (2, "cast to u32 first", "fn f(x: u64) -> usize {\n    x as usize\n}"),
    (2, "usize has 32 bits", "fn f(x: usize) -> u32 {\n    x.count_ones()\n}"),
    (2, "usize has 32 bits", "fn f(x: usize) -> f32 {\n    x.wrapping_sub(300) as f32\n}"),
    (2, "usize has 32 bits", "fn f(x: usize) -> usize {\n    x.wrapping_mul(x)\n}"),
    (2, "usize has 32 bits", "fn f(x: usize) -> usize {\n    x.saturating_add(1)\n}"),
    (2, "usize has 32 bits", "fn f(x: usize) -> usize {\n    !x >> 20\n}"),
    (2, "one `rev` or `step_by`", "fn f() {\n    for i in (0..9).rev().rev() {}\n}"),
    (2, "one `rev` or `step_by`", "fn f() {\n    for i in (0..9).step_by(2).step_by(5) {}\n}"),
    (2, "one `rev` or `step_by`", "fn f() {\n    for i in (0..9).step_by(2).rev() {}\n}"),
    (2, "one `rev` or `step_by`", "fn f() {\n    for i in (0..9).rev().step_by(2) {}\n}"),
    (2, "differs on a GPU", "fn f() -> usize {\n    usize::MAX\n}"),
    (2, "too large for usize", "fn f() -> usize {\n    5_000_000_000\n}"),
    (2, "is not known to a body", "fn f() -> f32 {\n    rand::random()\n}"),
    (2, "only constants are declared", "fn f() {\n    fn g() {}\n}"),
    (2, "both ends", "fn f() {\n    for i in 0.. {}\n}"),
    (1, "this is not Rust", "fn f( {"),
    (2, "compared part by part", "fn f(a: [i32; 2], b: [i32; 2]) -> bool {\n    a == b\n}"),
    (2, "name all 3 elements", "fn f(a: [i32; 3]) {\n    let [x, ..] = a;\n}"),
    (1, "write the number", "const N: i32 = i32::MAX.wrapping_add(1);\nfn f() -> i32 {\n    N\n}"),
    (1, "write the number", "const N: i32 = 2.5 as i32;\nfn f() -> i32 {\n    N\n}"),
    (1, "`f32::INFINITY`", "const X: f32 = 1.0 / 0.0;\nfn f() -> f32 {\n    X\n}"),
    (2, "`f32::NAN`", "const Z: f32 = 0.0;\nconst X: f32 = Z / -Z;\nfn f() -> f32 {\n    X\n}"),
    (1, "2 to 4 parts, not 5", "fn f(x: (i32, i32, i32, i32, i32)) -> i32 { x.0 }"),
    (2, "2 to 4 parts, not 5", "fn f() {\n    let x = (1, 2, 3, 4, 5);\n}"),
    (
        4,
        "write a method",
        "struct V { x: f32 }\nimpl std::ops::Add for V {\n}\nfn f(a: V, b: V) { let c = a + b; }",
    ),
    (3, "write a method", "struct V { x: f32 }\nfn f(a: V) -> V {\n    -a\n}"),
    (3, "write a method", "struct V { x: f32 }\nfn f(mut a: V, x: f32) {\n    a *= x;\n}"),
    (
        3,
        "compared by their numbers",
        "#[derive(Clone, Copy)] enum K { A, B }\nimpl PartialEq for K { fn eq(&self, o: &K) -> bool { true } }\nfn f(a: K, b: K) -> bool { a == b }",
    ),
    (
        4,
        "an index changes another",
        "fn up(i: &mut usize) -> usize { *i += 1; *i }\nfn f(g: [[i32; 9]; 9]) -> i32 {\n    let mut i = 0;\n    g[i][up(&mut i)]\n}",
    ),
    (
        3,
        "write an arm for each",
        "fn f(x: i32, y: i32) -> i32 {\n    match (x, y) {\n        (0, n) | (n, 0) => n,\n        _ => 1,\n    }\n}",
    ),
    (2, "name the parts", "fn f(x: i32, y: i32) -> i32 {\n    match (x, y) { t => t.0 }\n}"),
    (2, "a reference to a tuple", "fn f(t: (i32, f32)) {\n    let (a, b) = &t;\n}"),
    (2, "the value is f32", "fn f(t: f32) {\n    let (a, b) = t;\n}"),
    (2, "the left side is f32", "fn f(t: f32, n: i32) {\n    let a = t + n;\n}"),
    (2, "then `x as u32`", "fn f(x: i32) {\n    let a = u32::try_from(x);\n}"),
    (2, "write `x.max(...)`", "fn f(x: i32) {\n    let a = i32::max(x, 3);\n}"),
    (2, "`math::sin`", "fn f(x: f32) {\n    let a = f32::sin(x);\n}"),
    (2, "means none", "fn f(x: i32) {\n    let a = Some(x);\n}"),
    (1, "means none", "fn f(x: Option<i32>) {}"),
    (2, "compare by `if` or `match`", "fn f(x: i32) {\n    if let Some(y) = x {}\n}"),
    (2, "test by `if`", "fn f(x: i32) {\n    let a = x?;\n}"),
    (3, "variants have fields", "enum K { A(f32), B }\nfn f(x: i32) {\n    let a = K::A(1.0);\n}"),
    (2, "variants have fields", "enum K { A(f32), B }\nfn f(x: K) {}"),
    (4, "write `K::A`", "enum K { A, B }\nuse K::*;\nfn f(x: i32) {\n    let a = A;\n}"),
    (3, "name it in the `use`", "use warp_core::math::*;\nfn f(x: f32) {\n    let a = sin(x);\n}"),
    (
        4,
        "declare `N` outside",
        "struct V { x: f32 }\nimpl V { const N: i32 = 3; }\nfn f(x: f32) {\n    let a = V::N;\n}",
    ),
    (3, "statics are not supported", "static N: i32 = 3;\nfn f() {\n    let a = N;\n}"),
    (2, "unnamed fields", "struct V(f32);\nfn f(x: f32) { let v = V(x); }"),
    (
        1,
        "3000000000, which does not fit",
        "#[repr(u32)] enum K { A = 3_000_000_000 }\nfn f(k: K) {}",
    ),
    (2, "same in all builds", "fn f(x: i32) -> i32 {\n    #[cfg(test)] return 3;\n    x\n}"),
    (
        5,
        "same in all builds",
        "#[cfg(a)] const N: i32 = 1;\n#[cfg(not(a))] const N: i32 = 2;\nfn f(x: i32) -> i32 {\n\
         #[allow(unused)]\n    let a = N;\n    a\n}",
    ),
    (
        3,
        "same in all builds",
        "#[cfg(a)] fn g() {}\n#[cfg(not(a))] fn g() {}\nfn f(x: i32) { g(); }",
    ),
    (
        4,
        "same in all builds",
        "struct V { x: f32 }\nimpl V { #[cfg(a)] fn g(&self) {}\n#[cfg(not(a))] fn g(&self) {} }\n\
         fn f(v: V) { v.g(); }",
    ),
    (2, "same in all builds", "struct V { #[cfg(a)] y: f32, x: f32 }\nfn f(v: V) {}"),
    (
        5,
        "same in all builds",
        "mod a { pub fn g() {} }\nmod b { pub fn g() {} }\n#[cfg(a)] use a::g;\n\
         #[cfg(not(a))] use b::g;\nfn f(x: i32) { g(); }",
    ),
    (
        3,
        "`move` is not supported",
        "fn f(x: i32) -> i32 {\n    let mut y = x;\n    let g = move || y;\n    y = 3;\n    g() + y\n}",
    ),
    (2, "gets a name", "fn f(x: i32) -> i32 {\n    (|| 3)()\n}"),
];

#[test]
fn every_form_outside_of_the_subset_is_named_with_its_line() {
    for (i, (line, part, text)) in CATALOGUE.iter().enumerate() {
        let found = of(&format!("case_{i}"), text);
        let Err(diagnostics) = found else { panic!("{text}\nwas translated:\n{}", found.unwrap()) };
        let fits = |d: &&Diagnostic| d.line == *line && d.sentence.contains(part);
        // Where a call has no name yet there is another sentence for the same.
        let fits = diagnostics.iter().find(fits).is_some()
            || (*part == "gets a name" && diagnostics[0].sentence.contains("by their name"));
        assert!(fits, "{text}\nline {line}: {part}\n{diagnostics:?}");
    }
}

/// The same for teams, whose rules are about who runs what.
const TEAMS: &[(usize, &str, &str)] = &[
    (3, "writes local variables only", "for i in team::each(x.len()) { x[i] = 0.0; }\nx[0] = 1.0;"),
    (
        3,
        "variable of its own",
        "let mut near = false;\nfor i in team::each(x.len()) { near |= x[i] > 0.0; }",
    ),
    (2, "calls no `team`", "for i in team::each(x.len()) { team::once(|| x[i] = 0.0); }"),
    (3, "goes through all", "for i in team::each(x.len()) {\nif x[i] > 1.0 { return; }\n}"),
    (3, "goes through all", "for i in team::each(x.len()) {\nif x[i] > 1.0 { break; }\n}"),
    (2, "only be used in `for ... in`", "team::each(x.len(), |i| x[i] = 0.0);"),
    (2, "go over ranges", "for i in team::each(x.len()).rev() { x[i] = 0.0; }"),
    (
        3,
        "leave a loop",
        "let a = team::any(x.len(), |i| {\nfor k in 0..3 { if k > 1 { return true; } }\nx[i] > 0.0 });",
    ),
    (2, "no place in `team::once`", "team::once(|| return);"),
    (2, "does not change", "for mut i in team::each(x.len()) { i += 1; x[i - 1] = 0.0; }"),
    (2, "bound once", "let (mut part, n) = (&mut x[..2], 2);\npart[0] = n as f32;"),
    (2, "bound once", "let mut part = &mut x[..2];\nfor i in team::each(2) { part[i] = 0.0; }"),
    (2, "write the number of parts", "let a = team::sum_parts(x.len(), |i| x[i]);"),
];

#[test]
fn rules_of_teams_are_kept() {
    for (i, (line, part, body)) in TEAMS.iter().enumerate() {
        let text = format!("use warp_core::team; fn f(x: &mut [f32]) {{\n{body}\n}}");
        let found = of(&format!("team_{i}"), &text);
        let Err(diagnostics) = found else { panic!("{text}\nwas translated:\n{}", found.unwrap()) };
        let fits = diagnostics.iter().any(|d| d.line == *line && d.sentence.contains(part));
        assert!(fits, "{text}\nline {line}: {part}\n{diagnostics:?}");
    }
}

#[test]
fn a_team_waits_exactly_where_another_thread_has_been() {
    let waits = |body: &str| {
        let head = "use warp_core::team;\nfn f(x: &mut [f32], y: &mut [f32])";
        let text = of("waits", &format!("{head} {{\nlet n = x.len();\n{body}\n}}")).unwrap();
        text.matches("warp_sync();").count()
    };
    let own = "for i in team::each(n) { x[i] = 1.0; }";
    // The same thread has the same index again.
    assert_eq!(waits(&format!("{own}\nfor i in team::each(n) {{ y[i] = x[i]; }}")), 0);
    // A neighbour's element, one thread after all, all after one.
    assert_eq!(waits(&format!("{own}\nfor i in team::each(n) {{ y[i] = x[(i + 1) % n]; }}")), 1);
    assert_eq!(waits(&format!("{own}\nteam::once(|| y[0] = x[3]);")), 1);
    assert_eq!(waits("team::once(|| x[0] = 1.0);\nfor i in team::each(n) { y[i] = x[i]; }"), 1);
    // Reading after reading is free; writing after reading is not.
    assert_eq!(
        waits("for i in team::each(n) { y[i] = x[0]; }\nfor i in team::each(n) { y[i] = x[1]; }"),
        0
    );
    assert_eq!(
        waits("for i in team::each(n) { y[i] = x[0]; }\nfor i in team::each(n) { x[i] = 1.0; }"),
        1
    );
    // What all threads read after one has written.
    assert_eq!(waits("team::once(|| x[0] = 1.0);\nlet a = x[0];\nteam::once(|| y[0] = a);"), 1);
    // The end of a round meets the beginning of the next.
    let round = "for i in team::each(n) { y[i] = x[(i + 1) % n]; }\n\
        for i in team::each(n) { x[i] = y[i]; }";
    assert_eq!(waits(round), 1);
    assert_eq!(waits(&format!("for _ in 0..3 {{\n{round}\n}}")), 2);
    // A part and the element behind it are apart, unless the number may have changed in between.
    let part = "let last = n - 1;\nlet head = &mut x[..last];\n\
        for i in team::each(last) { head[i] = 1.0; }\n";
    assert_eq!(waits(&format!("{part}team::once(|| x[last] = 2.0);")), 0);
    assert_eq!(waits(&format!("{part}team::once(|| x[last - 1] = 2.0);")), 1);
    assert_eq!(waits(&format!("{part}let last = n - 2;\nteam::once(|| x[last] = 2.0);")), 1);
    let copy = "let mut m = last;\nm -= 1;\nteam::once(|| x[m] = 2.0);";
    assert_eq!(waits(&format!("{part}{copy}")), 1);
    let shifted = "for i in team::each(n) { let mut j = i; j = (j + 1) % n; y[j] = 1.0; }\n\
        for i in team::each(n) { x[i] = y[i]; }";
    assert_eq!(waits(shifted), 1);
    let round = "let last = n - k;\nlet head = &mut x[..last];\n\
        for i in team::each(last) { head[i] = 1.0; }\nteam::once(|| x[last] = 2.0);";
    assert_eq!(waits(&format!("for k in 1..3 {{\n{round}\n}}")), 2);
    // Adding is no conflict with adding.
    let add = "for i in team::each(n) { let _ = i; }";
    assert_eq!(waits(add), 0);
}

#[test]
fn a_vote_shows_what_was_written_and_ends_what_was_read() {
    let settles = |body: &str| {
        let head = "use warp_core::team;\nfn f(x: &mut [f32], y: &mut [f32])";
        let text = of("votes", &format!("{head} {{\nlet n = x.len();\n{body}\n}}")).unwrap();
        (text.matches("warp_settle();").count(), text.matches("warp_sync();").count())
    };
    let vote = "let a = team::any(n, |i| x[i] > y[0]);\n";
    let write = "for i in team::each(n) { x[i] = 1.0; }\n";
    // What was read before may be written after it.
    assert_eq!(settles(&format!("{vote}team::once(|| y[0] = 1.0);")), (0, 0));
    assert_eq!(settles(&format!("{write}{vote}team::once(|| y[0] = x[1]);")), (1, 0));
    for other in ["team::sum(n, |i| y[i] as i32)", "team::least(n, |i| y[i] as i64)"] {
        assert_eq!(
            settles(&format!("{write}let a = {other};\nteam::once(|| y[0] = x[1]);")),
            (1, 0)
        );
    }
    // In one branch only, and at the end of a round before the vote of the next.
    let branch = format!("if n > 3 {{\n{write}}}\n{vote}");
    assert_eq!(settles(&format!("{branch}team::once(|| y[0] = x[1]);")), (1, 0));
    let rounds = format!("for _ in 0..3 {{\n{vote}{write}}}\nteam::once(|| y[0] = 1.0);");
    assert_eq!(settles(&rounds), (1, 0));
}

#[test]
fn an_environment_says_what_a_body_cannot_see() {
    let text = "use warp_core::*;\nwarp_core::params! { pub struct P { g: f32 } }\n\
        warp_core::state! { pub struct S { x: f32 } }\npub struct W { params: P, limit: u32 }\n\
        impl Env for W {\n    type Params = P;\n    type State = S;\n\
        fn reset(&self, state: &mut S, draw: &mut Draw) {\n        state.x = self.limit as f32;\n    }\n\
        fn observe(&self, state: &S, out: &mut Observation<'_>) {\n        out.obs[0][0] = state.x;\n    }\n\
        fn step(&self, state: &mut S, actions: &Actions<'_>, draw: &mut Draw, out: &mut StepOut<'_>) {\n\
        state.x += self.params.g;\n        out.terminated = state.y > 1.0;\n    }\n}\n";
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("world.rs");
    std::fs::write(&file, text).unwrap();
    let diagnostics = translate(&file).unwrap_err();
    assert_eq!(diagnostics.len(), 2, "{diagnostics:?}");
    assert_eq!(diagnostics[0].line, 9);
    assert!(diagnostics[0].sentence.contains("but not `limit`"), "{diagnostics:?}");
    assert!(diagnostics[1].sentence.contains("no field `y`"), "{diagnostics:?}");
    let fixed = text.replace("self.limit as f32", "2.0").replace("state.y", "state.x");
    std::fs::write(&file, fixed).unwrap();
    let made = translate(&file).unwrap();
    assert!(made.text.contains("state.x += env.params.g;"), "{}", made.text);
    assert_eq!(made.included, None);
    // Names that the framework's own declarations would have.
    for (from, to, name) in [
        ("params! { pub struct P { g:", "params! { pub struct P { short:", "`short` of `P`"),
        ("S { x: f32 }", "S { x: f32, union: u32 }", "`union` of `S`"),
        ("S { x: f32 }", "S { x: [f32; double] }", "`double` of `S`"),
        ("S { x: f32 }", "S { x: f32, θ: f32 }", "`θ` of `S`"),
    ] {
        std::fs::write(&file, text.replace(from, to)).unwrap();
        let found = translate(&file).unwrap_err();
        assert!(found[0].sentence.contains(name) && found[0].line > 1, "{found:?}");
    }
    // A dimension is unsigned where it is cast.
    let rows = text.replace("x: f32 } }", "x: [f32; n] } }").replace("state.x", "state.x[0]");
    let rows = rows.replace("self.limit as f32", "!(state.x.len() as u32) as f32");
    std::fs::write(&file, rows.replace("state.y", "state.x[0]")).unwrap();
    let made = translate(&file).unwrap();
    assert!(made.text.contains("state.x[0] = (float)~(unsigned int)n;"), "{}", made.text);
    // The state as the contract calls it.
    let viewed = text.replace("self.limit as f32", "2.0").replace("state.y", "state.x");
    let viewed = viewed
        .replace(": &mut S,", ": &mut View<'_, Self>,")
        .replace(": &S,", ": &View<'_, Self>,");
    std::fs::write(&file, viewed).unwrap();
    assert!(translate(&file).unwrap().text.contains("state.x += env.params.g;"));
}
