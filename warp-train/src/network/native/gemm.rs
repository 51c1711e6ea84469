//! Products of small row-major matrices, the whole of a multilayer perceptron's arithmetic.
//!
//! Three shapes occur: forward `Y = X W + b`, backward to the input `dX = dY Wt`, backward to the
//! weights `dW += Xt dY`. In all of them the last dimension of the right operand is contiguous, so one
//! kernel serves: a block of the result stays in registers, an element of the left operand is
//! broadcast, a piece of a row of the right one is loaded. The kernel is compiled for each vector
//! width and chosen at run time. Where the machine has fused multiply-add it is used: results have the same bits for
//! every vector width on machines with it, may differ on machines without, and never depend on threads.
#![expect(unsafe_code, reason = "calls functions compiled for vector units found at run time")]

/// The left operand: element (i, p) is `data[i * row + p * column]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left<'a> {
    data: &'a [f32],
    row: usize,
    column: usize,
}

impl<'a> Left<'a> {
    /// A row-major matrix with rows of `width`.
    pub(super) fn rows(data: &'a [f32], width: usize) -> Self {
        Self { data, row: width, column: 1 }
    }

    /// The transpose of a row-major matrix with rows of `width`.
    pub(super) fn transposed(data: &'a [f32], width: usize) -> Self {
        Self { data, row: 1, column: width }
    }
}

/// Number of rows, inner length, number of columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
}

/// What the product is added to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Onto<'a> {
    /// Nothing.
    Zero,
    /// What is there.
    Sums,
    /// One row of n numbers, the same for every row.
    Row(&'a [f32]),
}

/// The kinds of [`Onto`] as constants: what a block does at its end must be known when it is compiled,
/// or its sums do not stay in registers.
const ZERO: u8 = 0;
const SUMS: u8 = 1;
const ROW: u8 = 2;

/// `c = a b` onto something, with `b` `[k, n]` and `c` `[m, n]` row-major.
pub(super) fn multiply(shape: Shape, a: Left<'_>, b: &[f32], c: &mut [f32], onto: Onto<'_>) {
    debug_assert!(b.len() >= shape.k * shape.n && c.len() >= shape.m * shape.n);
    match onto {
        Onto::Zero => widest::<ZERO>(shape, a, b, c, &[]),
        Onto::Sums => widest::<SUMS>(shape, a, b, c, &[]),
        Onto::Row(row) => widest::<ROW>(shape, a, b, c, row),
    }
}

fn widest<const ONTO: u8>(shape: Shape, a: Left<'_>, b: &[f32], c: &mut [f32], row: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
            // SAFETY: the features were just found.
            return unsafe { multiply_avx512::<ONTO>(shape, a, b, c, row) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the features were just found.
            return unsafe { multiply_avx2::<ONTO>(shape, a, b, c, row) };
        }
    }
    blocks::<4, 8, false, ONTO>(shape, a, b, c, row);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
fn multiply_avx512<const O: u8>(shape: Shape, a: Left<'_>, b: &[f32], c: &mut [f32], row: &[f32]) {
    blocks::<8, 32, true, O>(shape, a, b, c, row);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_avx2<const O: u8>(shape: Shape, a: Left<'_>, b: &[f32], c: &mut [f32], row: &[f32]) {
    blocks::<4, 16, true, O>(shape, a, b, c, row);
}

/// Cuts the result into blocks of `MR` rows and `NR` columns, and what is left into smaller ones.
#[inline(always)]
fn blocks<const MR: usize, const NR: usize, const FMA: bool, const ONTO: u8>(
    shape: Shape,
    a: Left<'_>,
    b: &[f32],
    c: &mut [f32],
    start: &[f32],
) {
    let mut column = 0;
    while column + NR <= shape.n {
        column_of_blocks::<MR, NR, FMA, ONTO>(shape, a, b, &mut *c, start, column);
        column += NR;
    }
    while column + 8 <= shape.n {
        column_of_blocks::<MR, 8, FMA, ONTO>(shape, a, b, &mut *c, start, column);
        column += 8;
    }
    while column + 4 <= shape.n {
        column_of_blocks::<MR, 4, FMA, ONTO>(shape, a, b, &mut *c, start, column);
        column += 4;
    }
    while column < shape.n {
        column_of_blocks::<MR, 1, FMA, ONTO>(shape, a, b, &mut *c, start, column);
        column += 1;
    }
}

#[inline(always)]
fn column_of_blocks<const MR: usize, const NR: usize, const FMA: bool, const ONTO: u8>(
    shape: Shape,
    a: Left<'_>,
    b: &[f32],
    c: &mut [f32],
    start: &[f32],
    column: usize,
) {
    let mut row = 0;
    while row + MR <= shape.m {
        block::<MR, NR, FMA, ONTO>(shape, a, b, &mut *c, start, row, column);
        row += MR;
    }
    while row + 2 <= shape.m {
        block::<2, NR, FMA, ONTO>(shape, a, b, &mut *c, start, row, column);
        row += 2;
    }
    if row < shape.m {
        block::<1, NR, FMA, ONTO>(shape, a, b, &mut *c, start, row, column);
    }
}

/// One block of the result, kept in registers over the whole inner dimension.
#[inline(always)]
fn block<const MR: usize, const NR: usize, const FMA: bool, const ONTO: u8>(
    Shape { k, n, .. }: Shape,
    a: Left<'_>,
    b: &[f32],
    c: &mut [f32],
    start: &[f32],
    row: usize,
    column: usize,
) {
    let mut sums = [[0.0f32; NR]; MR];
    if a.column == 1 {
        // Row-major: one slice per row, so that the inner index is checked once.
        let rows: [&[f32]; MR] = std::array::from_fn(|i| &a.data[(row + i) * a.row..][..k]);
        for (p, b_row) in b.chunks_exact(n).take(k).enumerate() {
            let b_row = &b_row[column..column + NR];
            for (sums, row) in sums.iter_mut().zip(rows) {
                accumulate::<NR, FMA>(sums, row[p], b_row);
            }
        }
    } else {
        for (a_column, b_row) in a.data.chunks(a.column).zip(b.chunks_exact(n)).take(k) {
            let b_row = &b_row[column..column + NR];
            let a_column = &a_column[row..row + MR];
            for (sums, a) in sums.iter_mut().zip(a_column) {
                accumulate::<NR, FMA>(sums, *a, b_row);
            }
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        let c = &mut c[(row + i) * n + column..][..NR];
        if ONTO == SUMS {
            c.iter_mut().zip(sums).for_each(|(c, sum)| *c += sum);
        } else if ONTO == ROW {
            let start = &start[column..column + NR];
            c.iter_mut().zip(start).zip(sums).for_each(|((c, start), sum)| *c = start + sum);
        } else {
            c.iter_mut().zip(sums).for_each(|(c, sum)| *c = *sum);
        }
    }
}

#[inline(always)]
fn accumulate<const NR: usize, const FMA: bool>(sums: &mut [f32; NR], a: f32, b: &[f32]) {
    for (sum, b) in sums.iter_mut().zip(b) {
        *sum = if FMA { a.mul_add(*b, *sum) } else { a * b + *sum };
    }
}

/// `y[i][j] = bias[j] + x[i] . w[j]` for a few long rows `w`, `[n, k]`: the output layers.
pub(super) fn dots(shape: Shape, x: &[f32], w: &[f32], bias: &[f32], y: &mut [f32]) {
    let Shape { m, k, n } = shape;
    debug_assert!(x.len() >= m * k && w.len() >= n * k && y.len() >= m * n);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the features were just found.
        return unsafe { dots_avx2(shape, x, w, bias, y) };
    }
    dots_of_rows::<false>(shape, x, w, bias, y);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn dots_avx2(shape: Shape, x: &[f32], w: &[f32], bias: &[f32], y: &mut [f32]) {
    dots_of_rows::<true>(shape, x, w, bias, y);
}

#[inline(always)]
fn dots_of_rows<const FMA: bool>(
    Shape { k, n, .. }: Shape,
    x: &[f32],
    w: &[f32],
    bias: &[f32],
    y: &mut [f32],
) {
    for (x, y) in x.chunks_exact(k).zip(y.chunks_exact_mut(n)) {
        for ((w, bias), y) in w.chunks_exact(k).zip(bias).zip(y) {
            *y = bias + dot::<FMA>(x, w);
        }
    }
}

/// A scalar product, summed in eight lanes and these pairwise: a fixed order that vectorises.
#[inline(always)]
fn dot<const FMA: bool>(x: &[f32], w: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 8];
    let (x_rest, w_rest) = (x.chunks_exact(8).remainder(), w.chunks_exact(8).remainder());
    for (x, w) in x.chunks_exact(8).zip(w.chunks_exact(8)) {
        for ((lane, x), w) in lanes.iter_mut().zip(x).zip(w) {
            *lane = if FMA { x.mul_add(*w, *lane) } else { x * w + *lane };
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let rest: f32 = x_rest.iter().zip(w_rest).map(|(x, w)| x * w).sum();
    ((a + e) + (c + g)) + ((b + f) + (d + h)) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: u32) -> Vec<f32> {
        (0..n as u32).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 500.0 - 1.0).collect()
    }

    #[test]
    fn products_agree_with_their_definition_in_f64() {
        for (m, k, n) in
            [(1, 1, 1), (3, 4, 64), (9, 64, 64), (17, 5, 43), (64, 33, 2), (70, 71, 9), (9, 64, 6)]
        {
            let (x, w) = (numbers(m * k, 1), numbers(k * n, 2));
            let expected = |i: usize, j: usize| {
                let terms = (0..k).map(|p| f64::from(x[i * k + p]) * f64::from(w[p * n + j]));
                0.5 + terms.sum::<f64>()
            };
            let transposed: Vec<f32> = (0..k * m).map(|e| x[e % m * k + e / m]).collect();
            let w_rows: Vec<f32> = (0..n * k).map(|e| w[e % k * n + e / k]).collect();
            let shape = Shape { m, k, n };
            let start = vec![0.5f32; n];
            let mut results = vec![vec![9.0f32; m * n]; 5];
            let row = Onto::Row(&start);
            multiply(shape, Left::rows(&x, k), &w, &mut results[0], row);
            multiply(shape, Left::transposed(&transposed, m), &w, &mut results[1], row);
            dots(shape, &x, &w_rows, &start, &mut results[2]);
            results[3].fill(0.5);
            blocks::<4, 8, false, SUMS>(shape, Left::rows(&x, k), &w, &mut results[3], &[]);
            multiply(shape, Left::rows(&x, k), &w, &mut results[4], Onto::Zero);
            results[4].iter_mut().for_each(|c| *c += 0.5);
            for c in results {
                for (at, c) in c.iter().enumerate() {
                    let error = (f64::from(*c) - expected(at / n, at % n)).abs();
                    assert!(error < 1e-5, "{m} {k} {n} at {at}: {error}");
                }
            }
        }
    }
}
