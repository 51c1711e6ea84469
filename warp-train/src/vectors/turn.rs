//! Turned matrices: rows become columns.

use super::{Work, run};

/// A matrix whose rows may lie apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// From a row to the next, at least `columns`.
    pub(crate) stride: usize,
}

/// Fills `turned` with `matrix`, column by column, each `stride` after the last.
pub(crate) fn turn(matrix: Matrix<'_>, turned: &mut [f32], stride: usize) {
    run(Turn { matrix, turned, stride });
}

struct Turn<'a> {
    matrix: Matrix<'a>,
    turned: &'a mut [f32],
    stride: usize,
}

/// Side of the squares that are turned at once.
const SQUARE: usize = 8;

impl Work for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { matrix: Matrix { values, rows, columns, stride: from_stride }, .. } = self;
        let Self { turned, stride, .. } = self;
        let (whole_rows, whole_columns) = (rows - rows % SQUARE, columns - columns % SQUARE);
        for row in (0..whole_rows).step_by(SQUARE) {
            for column in (0..whole_columns).step_by(SQUARE) {
                let mut square = [[0.0; SQUARE]; SQUARE];
                for (i, numbers) in square.iter_mut().enumerate() {
                    let at = (row + i) * from_stride + column;
                    numbers.copy_from_slice(&values[at..at + SQUARE]);
                }
                for j in 0..SQUARE {
                    let at = (column + j) * stride + row;
                    let to = &mut turned[at..at + SQUARE];
                    to.iter_mut().zip(&square).for_each(|(to, numbers)| *to = numbers[j]);
                }
            }
        }
        for row in 0..rows {
            let first = if row < whole_rows { whole_columns } else { 0 };
            for column in first..columns {
                turned[column * stride + row] = values[row * from_stride + column];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_turned_wherever_their_rows_lie() {
        for (rows, columns) in [(1, 1), (3, 20), (8, 8), (17, 9), (64, 71)] {
            for (apart, turned_apart) in [(0, 0), (3, 5)] {
                let (stride, turned_stride) = (columns + apart, rows + turned_apart);
                let values: Vec<f32> = (0..rows * stride).map(|i| i as f32).collect();
                let mut turned = vec![-1.0; columns * turned_stride];
                turn(Matrix { values: &values, rows, columns, stride }, &mut turned, turned_stride);
                for (at, x) in turned.iter().enumerate() {
                    let (column, row) = (at / turned_stride, at % turned_stride);
                    let expected = if row < rows { values[row * stride + column] } else { -1.0 };
                    assert_eq!(*x, expected, "{rows} {columns} at {row} {column}");
                }
            }
        }
    }
}
