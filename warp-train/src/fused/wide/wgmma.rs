//! Products of matrices on the tensor cores of compute capability 9, as CUDA code: wgmma instructions for each width.

use std::fmt::Write;

/// Products of a group of four warps, 64 rows by 16 by each of `widths`: the left operand in
/// registers and the right one in shared memory, turned or not; or both in shared memory, turned (with the sums of the
/// last 8 columns apart from the others, too), or each of them turned or not.
pub(super) fn products(widths: &[usize]) -> String {
    let mut text =
        String::from("\ntypedef unsigned long long WideWord;\ntemplate <int N> struct Mma;\n");
    for n in widths {
        let d = n / 2;
        let numbered =
            |format: &dyn Fn(usize) -> String| (0..d).map(format).collect::<Vec<_>>().join(", ");
        let places = numbered(&|i| format!("%{i}"));
        let sums = numbered(&|i| format!("\"+f\"(d[{i}])"));
        let code = format!(
            "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.\" HALF_TYPE \".\" HALF_TYPE \" {{{places}}}"
        );
        let [a, b, c, e, right, add, turned] = std::array::from_fn(|i| d + i);
        let beside = match d.checked_sub(4) {
            None | Some(0) => String::new(),
            Some(first) => {
                let last = (0..4).map(|i| format!("\"+f\"(last[{i}])")).collect::<Vec<_>>();
                let sums = (0..first).map(|i| format!("\"+f\"(d[{i}])")).chain(last);
                let sums = sums.collect::<Vec<_>>().join(", ");
                format!(
                    "__device__ static inline void beside(\n\
                     float (&d)[{first}], float (&last)[4], WideWord a, WideWord b) {{\n\
                     asm volatile(\"{code}, %{a}, %{b}, 1, 1, 1, 1, 1;\" : {sums} : \"l\"(a), \"l\"(b));\n}}\n"
                )
            }
        };
        let _ = write!(
            text,
            "template <> struct Mma<{n}> {{\n\
             template <int TURNED> __device__ static inline void registers(\n\
             float (&d)[{d}], const unsigned int* a, WideWord b, int add) {{\n\
             asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{add}, 0; {code}, \
             {{%{a}, %{b}, %{c}, %{e}}}, %{right}, p, 1, 1, %{turned};}}\"\n\
             : {sums} : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), \"r\"(add), \
             \"n\"(TURNED));\n}}\n\
             __device__ static inline void shared(float (&d)[{d}], WideWord a, WideWord b) {{\n\
             asm volatile(\"{code}, %{a}, %{b}, 1, 1, 1, 1, 1;\" : {sums} : \"l\"(a), \"l\"(b));\n\
             }}\n\
             {beside}template <int TURNED, int RIGHT_TURNED = TURNED> __device__ static inline void both(\n\
             float (&d)[{d}], WideWord a, WideWord b, int add) {{\n\
             asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{c}, 0; {code}, %{a}, %{b}, p, 1, 1, \
             %{e}, %{right};}}\"\n: {sums} : \"l\"(a), \"l\"(b), \"r\"(add), \"n\"(TURNED), \"n\"(RIGHT_TURNED));\n\
             }}\n}};\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_name_every_operand() {
        let text = products(&[8]);
        assert!(
            text.contains(
                "m64n8k16.f32.\" HALF_TYPE \".\" HALF_TYPE \" {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, \
                 1, 1, %10"
            )
        );
        assert!(text.contains("{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 1, 1"));
    }
}
