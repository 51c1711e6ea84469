//! Drawing actions for 1,024 rows of logits.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use warp_sample::{CategoricalLayout, Mode, Rows, Samples};

const ROWS: usize = 1024;

fn sample(c: &mut Criterion) {
    let mut group = c.benchmark_group("sample");
    group.throughput(Throughput::Elements(ROWS as u64));
    for sizes in [&[2][..], &[5], &[21, 21]] {
        let layout = CategoricalLayout::new(sizes).expect("heads of at least one choice");
        let logits: Vec<f32> =
            (0..ROWS * layout.width()).map(|i| (i * 37 % 11) as f32 * 0.2).collect();
        let mut actions = vec![0; ROWS * layout.n_heads()];
        let (mut log_probs, mut entropies) = (vec![0.0; ROWS], vec![0.0; ROWS]);
        group.bench_function(format!("{sizes:?}"), |b| {
            let mut step = 0;
            b.iter(|| {
                step += 1;
                let out = Samples {
                    actions: &mut actions,
                    log_probs: &mut log_probs,
                    entropies: &mut entropies,
                };
                let rows = Rows::new(1, step);
                layout.sample(black_box(&logits), None, &rows, Mode::Sample, out).expect("it fits");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, sample);
criterion_main!(benches);
