//! Bodies by hand, of what random ones rarely are: each has differed between the two languages, or could
//! have.

/// Their text, a function each: parameters and value are those of random ones.
const CASES: &[&str] = &[
    // `as` says nothing about what it casts: an integer that nothing else decides is i32.
    "let mut n = 0;
    for _ in 0..3 { n -= 1; }
    if n < 0 { return 1; }
    n as u32",
    "let a = [3, 200, 100];
    let total = a[0] + a[1] + a[2];
    let average = total / 3;
    (average as u8) as u32 ^ (total as u8) as u32",
    "(1 << 31 >> 31) as u64 as u32",
    "let mut k = [3, -1];
    k[0] -= 5;
    (k[0] as u32) ^ (k[1] as u64 >> 40) as u32",
    "let big = 300;
    (big as u8) as u32 + 7 as u8 as u32 + (!0 as u64 >> 60) as u32",
    "let least = 1 << 31 >> 31;
    i64::from(least) as u32 ^ (i64::from(least) >> 32) as u32",
    // Comments of any shape.
    "let mut x = u;
    // either / or \\
    x ^= 5;
    x = x.wrapping_mul(3); // what ends so \\
    x ^= v; // or so ??/
    x",
    // Where a compound assignment lies is asked for once.
    "let (mut count, mut x, mut y) = (u, [a, b, 3.5, 9.25], [i, j, -7, 5]);
    x[(bumped(&mut count) % 4) as usize] %= 2.0;
    y[(bumped(&mut count) % 4) as usize] <<= 3;
    y[(bumped(&mut count) % 4) as usize] >>= bumped(&mut count) % 8;
    y[(bumped(&mut count) % 4) as usize] <<= bumped(&mut count) % 8;
    x[(bumped(&mut count) % 4) as usize] /= x[(bumped(&mut count) % 4) as usize] + 100.0;
    let mut n = [1_i64, 2, -3, 4];
    n[{ count += 1; (count % 4) as usize }] <<= 5;
    n[(bumped(&mut count) % 4) as usize] ^= i64::from(bumped(&mut count));
    let mut hash = count;
    for k in 0..4 {
        hash = mixed(mixed(hash, bits(x[k])), (y[k] as u32) ^ (n[k] as u32));
    }
    hash",
    // A name with `mut` in a pattern is a copy.
    "let (mut w, x) = (i & 0xff, a);
    let grown = match w {
        mut n if n > 9 => { n += 1; n }
        0..=3 => 1,
        mut n => { while n > 2 { n -= 2; } n * 3 }
    };
    let other = match x { mut n => { n = tame(n) + 1.0; n } };
    let sum = match (w, x > 0.0) {
        (mut n, true) => { n ^= grown; w += n & 3; n + w }
        (n, _) => { w += 1; n + w }
    };
    let called = match u { 7 => 1, mut n => bumped(&mut n) };
    let kept = match j & 0xff { mut n if n > 100 => { n -= 100; n } n => n };
    (grown ^ sum ^ w ^ kept) as u32 ^ bits(other) ^ bits(x) ^ called ^ u",
    // Loops whose variable would be counted past its type.
    "let (n, mut hash) = (250_u8, u);
    for k in (0..n).step_by(100) { hash = mixed(hash, k as u32); }
    for k in (0..4_000_000_000_u32).step_by(1_500_000_000) { hash = mixed(hash, k); }
    for k in u32::MAX - 2..=u32::MAX { hash = mixed(hash, k); }
    for k in (u32::MAX - 2..=u32::MAX).rev() { hash = mixed(hash, k); }
    for k in (i32::MAX - 5..i32::MAX).step_by(3) { hash = mixed(hash, k as u32); }
    for k in (i32::MIN..i32::MIN + 3).rev() { hash = mixed(hash, k as u32); }
    for k in (i32::MIN..=i32::MIN + 3).rev() { hash = mixed(hash, k as u32); }
    for k in 253..=255_u8 { hash = mixed(hash, k as u32); }
    for k in (253..=255_u8).rev() { hash = mixed(hash, k as u32); }
    for k in 0..=0_usize { hash = mixed(hash, k as u32); }
    hash",
    "let (low, high) = (i.max(i32::MAX - 3), j.min(i32::MIN + 3));
    let (wide, mut hash) = (i64::MAX - 2, u);
    for k in low..=i32::MAX { if k & 1 == 0 { continue; } hash = mixed(hash, k as u32); }
    for k in (low..=i32::MAX).rev() { if k & 1 == 0 { continue; } hash = mixed(hash, k as u32); }
    for k in (i32::MIN..high).rev() { if k & 1 == 0 { continue; } hash = mixed(hash, k as u32); }
    for k in (i32::MIN..=high).rev() { hash = mixed(hash, k as u32); }
    for k in (low..i32::MAX).step_by((v & 3) as usize + 1) { hash = mixed(hash, k as u32); }
    for k in (-2..i & 7).step_by((v & 3) as usize + 1) { hash = mixed(hash, k as u32); }
    for k in (i & 3..=2).rev() { hash = mixed(hash, k as u32); }
    for k in (i & 7..4).rev() { hash = mixed(hash, k as u32); }
    for k in (i & 7)..=(j & 7) { hash = mixed(hash, k as u32); }
    for k in wide..=i64::MAX { hash = mixed(hash, k as u32); }
    for k in (wide..i64::MAX).step_by(2) { hash = mixed(hash, k as u32); }
    for k in (0..=u64::from(v & 7)).rev() { hash = mixed(hash, k as u32); }
    for k in 0..=(v & 7) as usize { hash = mixed(hash, k as u32); }
    let mut stride = 300;
    for k in (0..200_u8).step_by(stride) { stride = 1; hash = mixed(hash, k as u32); }
    for k in (stride..9).step_by({ stride += 2; stride }) { hash = mixed(hash, k as u32); }
    hash",
    // What `return` hands back may have no value, but does something.
    "let mut x = [u, v];
    touched(&mut x, i & 7);
    let mut up = |n: i32| {
        if n > 0 { return x[0] ^= 9; }
        x[1] = x[1].wrapping_add(1);
    };
    up(i);
    up(j);
    mixed(x[0], x[1])",
    // Patterns below zero.
    "let kind = match i { -1 => 5, -0x64..=-2 => 6, i32::MIN => 7, 0.. => 8, _ => 9 };
    let wide = match i64::from(j) { -100_i64 => 1, 100 => 2, -2147483648 => 3, _ => 4 };
    let real = match a { -7.25 => 1, -1.0..=0.0 => 2, 0.5.. => 3, _ => 4 };
    kind << 8 ^ wide << 4 ^ real",
    // A type's own methods before those of traits, and a `clone` that is written.
    "let pair = Pair { left: u, right: v };
    let turned = pair.clone();
    mixed(pair.first() ^ pair.second(), turned.left ^ Pair::first(&turned))",
    // Constants of a block are made of each other, before those of the file and before their own lines.
    "let early = CUBE + SIDE as u32;
    const SIDE: usize = 3;
    const CUBE: u32 = (SIDE * SIDE * SIDE) as u32;
    let mut cells = [u; SIDE + 1];
    cells[SIDE] = v;
    let inner = {
        const SIDE: usize = 5;
        const ROW: [i32; SIDE - 1] = [SIDE as i32, 7, LEAST, i32::MAX];
        let mut sum = 0;
        for k in SIDE - 4..SIDE - 1 { sum ^= ROW[k]; }
        sum ^ ROW.len() as i32
    };
    mixed(early ^ cells[3], cells.len() as u32) ^ (inner as u32) ^ SIDE as u32",
    // Names that the generated code or C's library has.
    "let (env, fabsf, warp_min, __half) = (i, a.abs(), v, 0.5_f32);
    let (floorf, warp_clamp) = (fabsf.floor(), u.clamp(3, 900).min(warp_min));
    const INFINITY: f32 = 3.5;
    let a = tame(a) + random(floorf);
    let x = floor(tame(b)) + rand(env) as f32 + tame(INFINITY + a) + __half;
    let (union, r#try, θ) = (i, j, v);
    union as u32 ^ r#try as u32 ^ θ.rotate_left(3) ^ bits(x) ^ warp_clamp ^ div(i, 7) as u32 ^ exit(j) as u32 ^ clock() ^ bits(pow(0.5, __half))",
    // Constants of any value.
    "let x = math::max(WORST, math::min(a, 7.5)) + HALVES[(u % 3) as usize] * RATIO;
    let last = if NONE == a || NONE.is_nan() { EMPTY[(v & 1) as usize] } else { 9 };
    bits(x) ^ NONE.to_bits() ^ bits(CLOSE) ^ bits(TINY) ^ BITS ^ LEN as u32 ^ last as u32 ^ bits(WORST)",
    // Constant arrays as values, slices and references.
    "let (mut copy, whole, part) = (SMALL, &SMALL, &SMALL[1..]);
    copy[(u & 3) as usize] ^= i;
    let slice: &[i32] = &SMALL;
    let sum = sum_of(&SMALL) ^ sum_of(part) ^ sum_of(&copy) ^ sum_of(slice) ^ first_of(SMALL);
    (sum ^ whole[3] ^ SMALL.get_clamped(j) ^ SMALL.len() as i32) as u32",
];

/// What they call.
const CALLED: &str = "
const NONE: f32 = f32::NAN;
const WORST: f32 = -f32::INFINITY;
const CLOSE: f32 = 1.00000017881393432617187499;
const TINY: f32 = 1.0e-45;
const HALVES: [f32; 3] = [0.5; 3];
const EMPTY: [i32; 2] = [0; 2];
const SIDE: usize = 2;
const LEN: usize = HALVES.len() * 2;
const BITS: u32 = (1 << 31 >> 3) as u32 ^ u32::MAX;
const RATIO: f32 = CLOSE / 3.0 - 2.0 * CLOSE;
fn touched(x: &mut [u32; 2], n: i32) {
    match n {
        0 => return { bumped(&mut x[0]); },
        1 | 2 => return x[1] ^= 5,
        _ => {}
    }
    for k in 0..n {
        if k == 4 { return turned(x); }
        x[0] ^= k as u32;
    }
}
fn turned(x: &mut [u32; 2]) { (x[0], x[1]) = (x[1], x[0] ^ 3); }
struct Pair { left: u32, right: u32 }
trait Sided { fn first(&self) -> u32; fn second(&self) -> u32; }
impl Pair { fn first(&self) -> u32 { self.left } }
impl Sided for Pair { fn first(&self) -> u32 { 77 } fn second(&self) -> u32 { self.right } }
impl Clone for Pair { fn clone(&self) -> Pair { Pair { left: self.right, right: self.left } } }
fn random(x: f32) -> f32 { tame(x) * 0.5 }
fn rand(x: i32) -> i32 { x & 0xff }
fn exit(code: i32) -> i32 { code & 0xf0f }
fn div(x: i32, y: i32) -> i32 { x / (y | 1) }
fn clock() -> u32 { 77 }
fn floor(x: f32) -> f32 { x.floor() - 1.0 }
fn first_of(values: [i32; 4]) -> i32 { values[0] }
fn pow(x: f32, y: f32) -> f32 { x * y }
";

/// The text of all, as functions from number `first` on.
pub(crate) fn functions(first: usize) -> String {
    let head = "a: f32, b: f32, i: i32, j: i32, u: u32, v: u32";
    let function = |(k, body): (usize, &&str)| {
        format!("\nfn f_{}({head}) -> u32 {{\n    {body}\n}}\n", first + k)
    };
    CALLED.to_string() + &CASES.iter().enumerate().map(function).collect::<String>()
}

/// How many there are.
pub(crate) fn count() -> usize {
    CASES.len()
}
