//! A setting with its energies: what the environments, the search for the best path and the
//! drawings share.

use super::config::{CatalysisConfig, Setting, Unphysical};
use super::surface;
use crate::numpy::{Numeric, read_npy};
use std::path::{Path, PathBuf};
use warp_core::{Error, Result};
use warp_func::file;

/// Cells of a grid at most.
pub(super) const MOST_CELLS: usize = 1 << 20;

/// A setting with its energies.
#[derive(Debug, Clone, PartialEq)]
pub struct Landscape {
    /// Everything but the energies.
    pub setting: Setting,
    /// Energy of every cell of the slab, eV, in the shape of [`Setting::shape`], row-major; what is
    /// unphysical stands as the setting says.
    pub energies: Vec<f64>,
    /// How many cells were below the reference energy.
    pub unphysical: usize,
}

impl Landscape {
    /// Reads the energies that `config` names, for `n_atoms` atoms, 1 or 2.
    ///
    /// # Errors
    /// A key that does not fit, or a file that is missing, damaged, of another shape, or holds
    /// something that is no energy.
    pub fn open(config: &CatalysisConfig, n_atoms: usize) -> Result<Self> {
        let setting = Setting::resolve(config, n_atoms)?;
        let shape = setting.shape();
        let n_cells = shape.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        if n_cells.is_none_or(|n| n > MOST_CELLS) {
            let reason = format!("more than {MOST_CELLS} cells are not possible");
            return Err(Error::invalid("nx", format!("{}, a grid of {shape:?}", shape[0]), reason));
        }
        let energies = match (&config.grid, setting.preset.file()) {
            (Some(path), file) => read(path, file, &shape)?,
            (None, None) => built_in(&setting, &shape)?,
            (None, Some(file)) => {
                let reason = format!("the preset needs {file}: name the file or its folder");
                return Err(Error::invalid("grid", "unset", reason));
            }
        };
        let mut landscape = Self { setting, energies, unphysical: 0 };
        landscape.treat_unphysical()?;
        Ok(landscape)
    }

    /// An energy below the reference belongs to no arrangement that could be: the calculation has
    /// failed, mostly because atoms overlap.
    fn treat_unphysical(&mut self) -> Result<()> {
        let Setting { ienergy, max_denergy, unphysical, .. } = self.setting;
        let below = |energy: &&f64| **energy < ienergy;
        self.unphysical = self.energies.iter().filter(below).count();
        match self.energies.iter().find(below) {
            Some(lowest) if unphysical == Unphysical::Reject => {
                let reason = format!(
                    "{} cells of the grid lie below it, the first at {lowest} eV",
                    self.unphysical
                );
                return Err(Error::invalid("ienergy", ienergy, reason));
            }
            Some(_) if unphysical == Unphysical::Clamp => {
                let high = ienergy + max_denergy;
                let mut low = self.energies.iter_mut().filter(|energy| **energy < ienergy);
                low.by_ref().for_each(|energy| *energy = high);
            }
            _ => {}
        }
        Ok(())
    }

    /// The number of the cell of `state` (x, y, z of each atom); `None` outside the slab.
    #[must_use]
    pub fn cell(&self, state: &[i32]) -> Option<usize> {
        let [nx, ny, _] = self.setting.cells;
        let (lower, upper) = self.setting.slab;
        let one = |number: usize, atom: &[i32]| {
            let inside = (0..nx).contains(&atom[0])
                && (0..ny).contains(&atom[1])
                && (lower..upper).contains(&atom[2]);
            let plane = number * nx as usize * ny as usize + (atom[0] * ny + atom[1]) as usize;
            inside.then(|| plane * self.setting.layers() + (atom[2] - lower) as usize)
        };
        let fits = state.len() == self.setting.initial.len();
        fits.then(|| state.chunks_exact(3).try_fold(0, one)).flatten()
    }

    /// The energy of `state`, eV; `None` outside the slab.
    #[must_use]
    pub fn energy(&self, state: &[i32]) -> Option<f64> {
        self.energies.get(self.cell(state)?).copied()
    }

    /// Reward of a step that ends at an energy above the reference, before the goal's is added.
    #[must_use]
    pub fn reward(&self, above: f64) -> f64 {
        (-above / self.setting.max_denergy).clamp(self.setting.min_reward, 0.0)
    }

    /// Reward of a step into each cell, before the goal's is added, in the order of the energies.
    pub(super) fn rewards(&self) -> impl Iterator<Item = f64> {
        self.energies.iter().map(|energy| self.reward(energy - self.setting.ienergy))
    }
}

/// The built-in energies, for a setting that has changed neither shape nor slab.
fn built_in(setting: &Setting, shape: &[usize]) -> Result<Vec<f64>> {
    let pair = shape.len() == 6;
    let (cells, slab) = match pair {
        true => (surface::PAIR_CELLS, surface::PAIR_SLAB),
        false => (surface::CELLS, surface::SLAB),
    };
    if (setting.cells, setting.slab) != (cells, slab) {
        let reason = format!("the built-in surface has {cells:?} cells and the slab {slab:?}");
        return Err(Error::invalid("grid", "unset", reason));
    }
    let energy = |number: usize| {
        let cell: Vec<i32> = place(number, shape).into_iter().map(|at| at as i32).collect();
        if pair { surface::two_atoms(&cell) } else { surface::one_atom(&cell) }
    };
    Ok((0..shape.iter().product()).map(energy).collect())
}

/// Reads the energies of a grid of `shape` from `path`, a file or the folder in which it is `name`.
fn read(path: &str, name: Option<&str>, shape: &[usize]) -> Result<Vec<f64>> {
    let path = match name {
        Some(name) if Path::new(path).is_dir() => Path::new(path).join(name),
        _ => PathBuf::from(path),
    };
    let refuse = |reason: String| Error::invalid("grid", path.display(), reason);
    let bytes =
        file::read(&path, file::ARRAYS).map_err(|e| refuse(format!("cannot be read: {e}")))?;
    let array = read_npy(&bytes).map_err(|e| refuse(format!("is not an array: {e}")))?;
    if !matches!(array.dtype, Numeric::F32 | Numeric::F64) {
        return Err(refuse(format!("holds {}, but energies are float32 or float64", array.dtype)));
    }
    if array.shape != shape {
        let seen = &array.shape;
        return Err(refuse(format!("has the shape {seen:?}, but {shape:?} is needed")));
    }
    if let Some(at) = array.data.iter().position(|energy| !energy.is_finite()) {
        let cell = place(at, shape);
        return Err(refuse(format!("holds {} at the cell {cell:?}", array.data[at])));
    }
    Ok(array.data)
}

/// Where the cell with some number lies in a grid of `shape`.
pub(super) fn place(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut place = vec![0; shape.len()];
    for (at, n) in place.iter_mut().zip(shape).rev() {
        (*at, number) = (number % n, number / n);
    }
    place
}
