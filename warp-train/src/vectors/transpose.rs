//! Transposed matrices: rows become columns.

/// A matrix whose rows may lie apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// From a row to the next, at least `columns`.
    pub(crate) stride: usize,
}

/// Fills `transposed` with `matrix`, column by column, each `stride` after the last.
pub(crate) fn transpose(matrix: Matrix<'_>, transposed: &mut [f32], stride: usize) {
    let transpose = Transpose { matrix, transposed, stride };
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx") {
        // SAFETY: the feature was just found.
        return unsafe { avx::transpose(transpose) };
    }
    transpose.by_squares(transpose_square);
}

struct Transpose<'a> {
    matrix: Matrix<'a>,
    transposed: &'a mut [f32],
    stride: usize,
}

/// Side of the squares that are transposed at once.
const SQUARE: usize = 8;

type Square = [[f32; SQUARE]; SQUARE];

impl Transpose<'_> {
    /// Transposes all squares with `transpose_square`, and the rest number by number.
    #[inline(always)]
    fn by_squares(self, transpose_square: impl Fn(Square) -> Square) {
        let Self { matrix: Matrix { values, rows, columns, stride: from_stride }, .. } = self;
        let Self { transposed, stride, .. } = self;
        let (whole_rows, whole_columns) = (rows - rows % SQUARE, columns - columns % SQUARE);
        for row in (0..whole_rows).step_by(SQUARE) {
            for column in (0..whole_columns).step_by(SQUARE) {
                let mut square = Square::default();
                for (i, numbers) in square.iter_mut().enumerate() {
                    let at = (row + i) * from_stride + column;
                    numbers.copy_from_slice(&values[at..at + SQUARE]);
                }
                for (i, numbers) in transpose_square(square).iter().enumerate() {
                    let at = (column + i) * stride + row;
                    transposed[at..at + SQUARE].copy_from_slice(numbers);
                }
            }
        }
        for row in 0..rows {
            let first = if row < whole_rows { whole_columns } else { 0 };
            for column in first..columns {
                transposed[column * stride + row] = values[row * from_stride + column];
            }
        }
    }
}

fn transpose_square(square: Square) -> Square {
    std::array::from_fn(|i| square.map(|numbers| numbers[i]))
}

/// Squares are transposed in registers, which takes a third of the time: compilers move number by number.
#[cfg(target_arch = "x86_64")]
mod avx {
    use super::{Square, Transpose};
    use std::arch::x86_64::{
        __m256, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };

    #[target_feature(enable = "avx")]
    pub(super) fn transpose(transpose: Transpose<'_>) {
        transpose.by_squares(|square| transpose_square(square));
    }

    #[target_feature(enable = "avx")]
    #[inline]
    fn transpose_square(square: Square) -> Square {
        // SAFETY: a vector is eight numbers in their order.
        let rows: [__m256; 8] = unsafe { std::mem::transmute(square) };
        // Two rows at a time become pairs of a column's numbers, these fours, and these columns.
        let [a, b, c, d] = fours([rows[0], rows[1], rows[2], rows[3]]);
        let [e, f, g, h] = fours([rows[4], rows[5], rows[6], rows[7]]);
        let columns = [
            _mm256_permute2f128_ps::<0x20>(a, e),
            _mm256_permute2f128_ps::<0x20>(b, f),
            _mm256_permute2f128_ps::<0x20>(c, g),
            _mm256_permute2f128_ps::<0x20>(d, h),
            _mm256_permute2f128_ps::<0x31>(a, e),
            _mm256_permute2f128_ps::<0x31>(b, f),
            _mm256_permute2f128_ps::<0x31>(c, g),
            _mm256_permute2f128_ps::<0x31>(d, h),
        ];
        // SAFETY: as above.
        unsafe { std::mem::transmute(columns) }
    }

    /// Of four rows, the numbers of columns 0 and 4, 1 and 5, 2 and 6, and 3 and 7.
    #[target_feature(enable = "avx")]
    #[inline]
    fn fours([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0x44>(ab, cd),
            _mm256_shuffle_ps::<0xee>(ab, cd),
            _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
            _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_transposed_wherever_their_rows_lie() {
        for (rows, columns) in [(1, 1), (3, 20), (8, 8), (17, 9), (64, 71)] {
            for (apart, transposed_apart) in [(0, 0), (3, 5)] {
                let (stride, transposed_stride) = (columns + apart, rows + transposed_apart);
                let values: Vec<f32> = (0..rows * stride).map(|i| i as f32).collect();
                let matrix = Matrix { values: &values, rows, columns, stride };
                let check = |transposed: &[f32]| {
                    for (at, x) in transposed.iter().enumerate() {
                        let (column, row) = (at / transposed_stride, at % transposed_stride);
                        let expected =
                            if row < rows { values[row * stride + column] } else { -1.0 };
                        assert_eq!(*x, expected, "{rows} {columns} at {row} {column}");
                    }
                };
                let mut transposed = vec![-1.0; columns * transposed_stride];
                transpose(matrix, &mut transposed, transposed_stride);
                check(&transposed);
                transposed.fill(-1.0);
                let plain =
                    Transpose { matrix, transposed: &mut transposed, stride: transposed_stride };
                plain.by_squares(transpose_square);
                check(&transposed);
            }
        }
    }
}
