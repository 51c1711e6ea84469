//! Splits the arrays of a learner's state by rows, for the ranks or shards of a run, and joins them again.
//!
//! Rows are the first axis of an array `[rows, width]` and the second of an array of the replay memory,
//! `[steps, rows, width]`. An array with one axis has no rows: every part has all of it.

use super::NamedArray;

impl<T: Copy> NamedArray<T> {
    /// Which axis is that of rows.
    fn axis_of_rows(&self) -> Option<usize> {
        match self.shape.len() {
            2 => Some(0),
            3 => Some(1),
            _ => None,
        }
    }

    /// Part number `index` of `n` equal ones.
    pub(crate) fn part(&self, index: usize, n: usize) -> Self {
        let Some(axis) = self.axis_of_rows().filter(|_| n > 1) else { return self.clone() };
        let whole: usize = self.shape[axis..].iter().product();
        let mut shape = self.shape.clone();
        shape[axis] /= n;
        let part: usize = shape[axis..].iter().product();
        let steps = self.data.chunks(whole.max(1));
        let data = steps.flat_map(|step| &step[index * part..][..part]).copied().collect();
        Self { name: self.name.clone(), shape, data }
    }

    /// This one with the rows of `others` behind its own, arrays of its shape in their order.
    pub(crate) fn with_rows_of(self, others: &[&[T]]) -> Self {
        let Some(axis) = self.axis_of_rows().filter(|_| !others.is_empty()) else { return self };
        let Self { name, mut shape, data } = self;
        let part: usize = shape[axis..].iter().product();
        let steps: usize = shape[..axis].iter().product();
        shape[axis] *= 1 + others.len();
        let parts: Vec<&[T]> = std::iter::once(&data[..]).chain(others.iter().copied()).collect();
        let rows = |step: usize| parts.iter().flat_map(move |data| &data[step * part..][..part]);
        Self { name, shape, data: (0..steps).flat_map(rows).copied().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[usize]) -> NamedArray<usize> {
        let n = shape.iter().product();
        NamedArray { name: "a".into(), shape: shape.to_vec(), data: (0..n).collect() }
    }

    #[test]
    fn parts_of_rows_are_put_together_again() {
        for shape in [&[6, 2][..], &[3, 4, 2], &[0, 4, 2], &[1]] {
            let whole = array(shape);
            let [one, two] = [0, 1].map(|index| whole.part(index, 2));
            assert_eq!(one.data.len(), one.shape.iter().product::<usize>(), "{shape:?}");
            assert_eq!(one.with_rows_of(&[&two.data]), whole);
        }
        assert_eq!(array(&[2, 4, 1]).part(1, 2).data, [2, 3, 6, 7]);
        assert_eq!(array(&[4, 2]).part(1, 2).data, [4, 5, 6, 7]);
    }
}
