//! The built-in energies: for one atom the surface of Müller and Brown, for two a corrugated one.
//!
//! Müller and Brown (Theoretica Chimica Acta 53, 75 to 93, 1979) gave a sum of four terms over a
//! plane, with three minima and two saddle points, on which searches for reaction paths have been
//! tried ever since. Here it is sampled every 0.1 and takes 0.01 eV per unit, so that the barrier is
//! about 1 eV; away from the plane the energy grows as that of a spring. A margin of high energies
//! makes the way around, through the periodic boundary, expensive.
//!
//! The two atoms lie on a surface with a hollow every four cells, each held by its hollow, pulled to
//! the plane by a spring, and repelled by the other atom.

use warp_core::math;

/// Reference energy of one atom, eV: just below the lowest cell.
pub(super) const REFERENCE: f64 = -1.5;
/// Cells along x, y and z for one atom.
pub(super) const CELLS: [i32; 3] = [32, 34, 12];
/// The slab of one atom.
pub(super) const SLAB: (i32, i32) = (3, 9);
/// One layer above the deepest minimum.
pub(super) const REACTANT: [i32; 3] = [11, 23, 6];
/// The minimum at the other end.
pub(super) const PRODUCT: [i32; 3] = [23, 9, 5];

/// Reference energy of two atoms, eV: in their hollows and far apart.
pub(super) const PAIR_REFERENCE: f64 = 0.0;
/// Cells along x, y and z for two atoms.
pub(super) const PAIR_CELLS: [i32; 3] = [8, 8, 8];
/// The slab of two atoms.
pub(super) const PAIR_SLAB: (i32, i32) = (3, 6);
/// Two hollows.
pub(super) const PAIR_REACTANT: [i32; 6] = [0, 0, 4, 0, 4, 4];
/// The two next to them.
pub(super) const PAIR_PRODUCT: [i32; 6] = [4, 0, 4, 4, 4, 4];

/// Where cell (0, 0) of one atom lies on the plane of Müller and Brown.
const ORIGIN: [f32; 2] = [-1.7, -0.9];
/// Between neighbouring cells, in the units of their plane.
const PITCH: f32 = 0.1;
/// eV per unit of their energy.
const SCALE: f32 = 0.01;
/// The layer of the plane, counted from the slab's lowest, for one atom.
const PLANE: i32 = 2;
/// The same for two.
const PAIR_PLANE: i32 = 1;
/// Energy of the layers next to the plane, eV.
const SPRING: f32 = 0.1;
/// Half the height of a saddle between hollows, eV.
const CORRUGATION: f32 = 0.25;
/// Energy of two atoms on one cell, eV.
const REPULSION: f32 = 4.0;

/// The four terms: height, coefficients of dx^2, dx dy and dy^2, and centre.
const TERMS: [[f32; 6]; 4] = [
    [-200.0, -1.0, 0.0, -10.0, 1.0, 0.0],
    [-100.0, -1.0, 0.0, -10.0, 0.0, 0.5],
    [-170.0, -6.5, 11.0, -6.5, -0.5, 1.5],
    [15.0, 0.7, 0.6, 0.7, -1.0, 1.0],
];

/// Energy of one atom on `cell` (x, y, layer), eV.
pub(super) fn one_atom(cell: &[i32]) -> f64 {
    let x = ORIGIN[0] + PITCH * cell[0] as f32;
    let y = ORIGIN[1] + PITCH * cell[1] as f32;
    let term = |[height, xx, xy, yy, x0, y0]: &[f32; 6]| {
        let (dx, dy) = (x - x0, y - y0);
        height * math::exp(xx * dx * dx + xy * dx * dy + yy * dy * dy)
    };
    let plane = TERMS.iter().map(term).sum::<f32>();
    f64::from(SCALE * plane + spring(cell[2] - PLANE))
}

/// Energy of two atoms on `cell` (x, y, layer of each), eV.
pub(super) fn two_atoms(cell: &[i32]) -> f64 {
    let (a, b) = cell.split_at(3);
    let wave = |at: i32| 1.0 - math::cos(std::f32::consts::FRAC_PI_2 * at as f32);
    let alone = |at: &[i32]| CORRUGATION * (wave(at[0]) + wave(at[1])) + spring(at[2] - PAIR_PLANE);
    // Around the periodic boundary where that is shorter.
    let across = |axis: usize| {
        let apart = (a[axis] - b[axis]).abs();
        apart.min(PAIR_CELLS[axis] - apart)
    };
    let (dx, dy, dz) = (across(0), across(1), a[2] - b[2]);
    let apart = (dx * dx + dy * dy + dz * dz) as f32;
    f64::from(alone(a) + alone(b) + REPULSION / (1.0 + apart))
}

fn spring(away: i32) -> f32 {
    SPRING * (away * away) as f32
}
