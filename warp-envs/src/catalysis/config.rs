//! What can be configured, the published settings, and the two put together.
//!
//! Keys are called as in the original. A key that is unset has the preset's value.

use super::surface;
use warp_core::{Error, Result, in_range};

/// Steps in an episode at most; timesteps are counted with 32 bits.
const MAX_LENGTH: u32 = i32::MAX as u32;
/// Cells on one axis at most, so that squares of distances fit in 32 bits.
const MAX_CELLS: i32 = 16_384;
/// Energies and rewards at most, so that sums of f32 stay finite.
const MAX_NUMBER: f64 = 1e9;

warp_core::choices! {
    /// Grid, start and goal under one name.
    pub enum Preset {
        /// One atom on the built-in surface.
        MuellerBrown = "mueller_brown",
        /// One atom between two surface sites, at the height it starts on.
        Diffusion2d = "diffusion2d",
        /// The same on relaxed energies, one layer of them.
        Diffusion2dRelaxed = "diffusion2d_relaxed",
        /// One atom between two surface sites.
        Diffusion3d = "diffusion3d",
        /// From the surface to the product.
        Surface = "surface",
        /// From above the surface to the product.
        Gas1 = "gas1",
        /// From further above the surface to the product.
        Gas2 = "gas2",
        /// "surface" on a grid of half the pitch.
        SurfaceDoubleGrids = "surface_double_grids",
        /// "gas2" on a grid of half the pitch.
        Gas2DoubleGrids = "gas2_double_grids",
        /// Two atoms on the other built-in surface.
        CorrugatedPair = "corrugated_pair",
        /// Two atoms that move along together.
        TwoAtomDiffusion = "two_atom_diffusion",
    }
}

warp_core::choices! {
    /// What becomes of energies below the reference, which no real arrangement has.
    pub enum Unphysical {
        /// They stay as they are and cost nothing, as in the original.
        Keep = "keep",
        /// They count as the highest energy, so that entering them costs the most.
        Clamp = "clamp",
        /// A grid that has some is refused.
        Reject = "reject",
    }
}

warp_core::config! {
    /// The configuration of [`Catalysis`](super::Catalysis) and [`CatalysisTwoAtoms`](super::CatalysisTwoAtoms).
    pub struct CatalysisConfig {
        /// Grid, start and goal under one name: for one atom "mueller_brown" (built in),
        /// "diffusion2d", "diffusion2d_relaxed", "diffusion3d", "surface", "gas1", "gas2",
        /// "surface_double_grids" or "gas2_double_grids", for two "corrugated_pair" (built in) or
        /// "two_atom_diffusion". Unset: the one that is built in. A preset sets neither episode_length, 500 as
        /// published unless a configuration says otherwise, nor exploring_starts: the default configurations
        /// for training, made for the built-in surfaces, have 40 and 0.95 with every preset.
        pub preset: Option<Preset> = None,
        /// Energies in eV: an .npy file of f32 or f64 [nx, ny, layers], for two atoms
        /// [nx, ny, layers, nx, ny, layers], or the folder with the preset's published file. Unset:
        /// the built-in surface.
        pub grid: Option<String> = None,
        /// Reference energy, eV, a little below all others; a step costs what its cell lies above it.
        pub ienergy: Option<f64> = None,
        /// Energy above the reference, eV, that counts as -1, and what leaving the slab counts as.
        pub max_denergy: Option<f64> = None,
        /// Cells along x, periodic.
        pub nx: Option<i32> = None,
        /// Cells along y, periodic.
        pub ny: Option<i32> = None,
        /// Cells along z, of which only the slab has energies.
        pub nz: Option<i32> = None,
        /// The lowest layer of the slab, above 0.
        pub z_slab_lower: Option<i32> = None,
        /// The layer above the slab, below nz.
        pub z_slab_upper: Option<i32> = None,
        /// Cell of the reactant: x, y, z of each atom.
        pub initial_state: Option<Vec<i32>> = None,
        /// Cell of the product: x, y, z of each atom. For one atom, the same z as the start's means
        /// that the atom may leave the slab, at the highest cost, instead of being held back.
        pub final_state: Option<Vec<i32>> = None,
        /// Reward added on reaching the product.
        pub terminate_reward: Option<f64> = None,
        /// The lowest reward of a step, 0 or less.
        pub min_reward: f64 = -1.0,
        /// Maximum number of steps in an episode; there it is truncated.
        pub episode_length: u32 = 500,
        /// Fraction of the episodes that start on a random cell of the slab instead, so that training finds the
        /// goal; evaluation starts all of them from the initial_state.
        pub exploring_starts: f32 = 0.0,
        /// Energies below the reference: "keep", "clamp" (they count as the highest) or "reject" (the
        /// grid is refused). Unset: "keep" for one atom and "clamp" for two, since a calculation in
        /// which two atoms overlap has failed, and without this its energy would be the best there is.
        pub unphysical: Option<Unphysical> = None,
    }
}

/// Everything but the energies, complete and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Which preset it began with.
    pub preset: Preset,
    /// Reference energy, eV.
    pub ienergy: f64,
    /// Energy above the reference that counts as -1, eV.
    pub max_denergy: f64,
    /// Cells along x, y and z.
    pub cells: [i32; 3],
    /// The lowest layer of the slab, and the one above it.
    pub slab: (i32, i32),
    /// Cell of the reactant, x, y, z of each atom.
    pub initial: Vec<i32>,
    /// Cell of the product, x, y, z of each atom.
    pub goal: Vec<i32>,
    /// Reward added on reaching the product.
    pub terminate_reward: f64,
    /// The lowest reward of a step.
    pub min_reward: f64,
    /// Maximum number of steps in an episode.
    pub episode_length: u32,
    /// Share of the episodes that start anywhere.
    pub exploring_starts: f32,
    /// What becomes of energies below the reference.
    pub unphysical: Unphysical,
}

/// What a preset says.
struct Published {
    file: Option<&'static str>,
    ienergy: f64,
    max_denergy: f64,
    cells: [i32; 3],
    slab: (i32, i32),
    initial: &'static [i32],
    goal: &'static [i32],
    terminate_reward: f64,
}

const MUELLER_BROWN: Published = Published {
    file: None,
    ienergy: surface::REFERENCE,
    max_denergy: 5.0,
    cells: surface::CELLS,
    slab: surface::SLAB,
    initial: &surface::REACTANT,
    goal: &surface::PRODUCT,
    terminate_reward: 30.0,
};

const DIFFUSION: Published = Published {
    file: Some("en_array_diffusion.npy"),
    ienergy: -193.6023,
    max_denergy: 20.0,
    cells: [20, 18, 100],
    slab: (58, 68),
    initial: &[5, 9, 60],
    goal: &[10, 0, 60],
    terminate_reward: 10.0,
};

const SURFACE: Published = Published {
    file: Some("en_array.npy"),
    ienergy: -227.689938,
    cells: [20, 18, 50],
    slab: (28, 48),
    initial: &[3, 6, 30],
    goal: &[5, 16, 38],
    terminate_reward: 30.0,
    ..DIFFUSION
};

const DOUBLE_GRIDS: Published = Published {
    file: Some("en_array_double_grids.npy"),
    cells: [39, 35, 99],
    slab: (56, 95),
    initial: &[6, 12, 60],
    goal: &[10, 32, 76],
    ..SURFACE
};

impl Preset {
    /// How many atoms move.
    #[must_use]
    pub fn n_atoms(self) -> usize {
        self.published().initial.len() / 3
    }

    /// The name under which its energies were published; `None`: they are built in.
    #[must_use]
    pub fn file(self) -> Option<&'static str> {
        self.published().file
    }

    fn published(self) -> Published {
        match self {
            Preset::MuellerBrown => MUELLER_BROWN,
            Preset::Diffusion2d => DIFFUSION,
            Preset::Diffusion2dRelaxed => Published {
                file: Some("en_array_diffusion_relax.npy"),
                ienergy: -193.69,
                slab: (60, 61),
                ..DIFFUSION
            },
            Preset::Diffusion3d => {
                Published { initial: &[5, 9, 61], terminate_reward: 30.0, ..DIFFUSION }
            }
            Preset::Surface => SURFACE,
            Preset::Gas1 => Published { initial: &[3, 15, 43], ..SURFACE },
            Preset::Gas2 => Published { initial: &[3, 12, 45], ..SURFACE },
            Preset::SurfaceDoubleGrids => Published { terminate_reward: 50.0, ..DOUBLE_GRIDS },
            Preset::Gas2DoubleGrids => Published { initial: &[6, 24, 90], ..DOUBLE_GRIDS },
            Preset::CorrugatedPair => Published {
                cells: surface::PAIR_CELLS,
                slab: surface::PAIR_SLAB,
                initial: &surface::PAIR_REACTANT,
                goal: &surface::PAIR_PRODUCT,
                ienergy: surface::PAIR_REFERENCE,
                ..MUELLER_BROWN
            },
            Preset::TwoAtomDiffusion => Published {
                file: Some("en_array_2atom_diffusion.npy"),
                ienergy: -200.78,
                max_denergy: 20.0,
                cells: [8, 8, 15],
                slab: (9, 14),
                initial: &[4, 4, 10, 4, 4, 11],
                goal: &[0, 4, 10, 0, 4, 11],
                terminate_reward: 30.0,
            },
        }
    }
}

impl Setting {
    /// The preset with what `config` changes, for `n_atoms` atoms, 1 or 2.
    ///
    /// # Errors
    /// The first key that is out of range or does not fit the others.
    pub fn resolve(config: &CatalysisConfig, n_atoms: usize) -> Result<Self> {
        let built_in = if n_atoms == 1 { Preset::MuellerBrown } else { Preset::CorrugatedPair };
        let preset = config.preset.unwrap_or(built_in);
        if preset.n_atoms() != n_atoms {
            let name = warp_core::ConfigValue::to_value(&preset).unwrap_or(false.into());
            let reason = format!("moves {} atoms, this environment {n_atoms}", preset.n_atoms());
            return Err(Error::invalid("preset", name, reason));
        }
        let from = preset.published();
        let usual = if n_atoms == 1 { Unphysical::Keep } else { Unphysical::Clamp };
        let or = |value: &Option<Vec<i32>>, preset: &[i32]| {
            value.clone().unwrap_or_else(|| preset.to_vec())
        };
        let setting = Self {
            preset,
            ienergy: config.ienergy.unwrap_or(from.ienergy),
            max_denergy: config.max_denergy.unwrap_or(from.max_denergy),
            cells: [
                config.nx.unwrap_or(from.cells[0]),
                config.ny.unwrap_or(from.cells[1]),
                config.nz.unwrap_or(from.cells[2]),
            ],
            slab: (
                config.z_slab_lower.unwrap_or(from.slab.0),
                config.z_slab_upper.unwrap_or(from.slab.1),
            ),
            initial: or(&config.initial_state, from.initial),
            goal: or(&config.final_state, from.goal),
            terminate_reward: config.terminate_reward.unwrap_or(from.terminate_reward),
            min_reward: config.min_reward,
            episode_length: config.episode_length,
            exploring_starts: config.exploring_starts,
            unphysical: config.unphysical.unwrap_or(usual),
        };
        setting.check()?;
        Ok(setting)
    }

    fn check(&self) -> Result<()> {
        let [nx, ny, nz] = self.cells;
        let (lower, upper) = self.slab;
        in_range("nx", nx, 1, MAX_CELLS)?;
        in_range("ny", ny, 1, MAX_CELLS)?;
        in_range("nz", nz, 3, MAX_CELLS)?;
        in_range("z_slab_lower", lower, 1, nz - 2)?;
        in_range("z_slab_upper", upper, lower + 1, nz - 1)?;
        in_range("ienergy", self.ienergy, -MAX_NUMBER, MAX_NUMBER)?;
        in_range("max_denergy", self.max_denergy, 1e-6, MAX_NUMBER)?;
        in_range("terminate_reward", self.terminate_reward, -MAX_NUMBER, MAX_NUMBER)?;
        in_range("min_reward", self.min_reward, -MAX_NUMBER, 0.0)?;
        in_range("exploring_starts", self.exploring_starts, 0.0, 1.0)?;
        in_range("episode_length", self.episode_length, 1, MAX_LENGTH)?;
        let n_atoms = self.preset.n_atoms();
        for (key, state) in [("initial_state", &self.initial), ("final_state", &self.goal)] {
            let refuse = |reason: String| Err(Error::invalid(key, format!("{state:?}"), reason));
            if state.len() != 3 * n_atoms {
                return refuse(format!("{} numbers are needed, x, y, z of each atom", 3 * n_atoms));
            }
            for atom in state.chunks_exact(3) {
                let inside = (0..nx).contains(&atom[0])
                    && (0..ny).contains(&atom[1])
                    && (lower..upper).contains(&atom[2]);
                if !inside {
                    return refuse(format!(
                        "x must lie in 0..{nx}, y in 0..{ny} and z in the slab, {lower}..{upper}"
                    ));
                }
            }
        }
        if self.initial == self.goal {
            let reason = "is the initial_state, so there is nothing to do";
            return Err(Error::invalid("final_state", format!("{:?}", self.goal), reason));
        }
        Ok(())
    }

    /// Layers of the slab.
    #[must_use]
    pub fn layers(&self) -> usize {
        (self.slab.1 - self.slab.0) as usize
    }

    /// Shape of the grid: cells along x and y, layers; twice for two atoms.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        [self.cells[0] as usize, self.cells[1] as usize, self.layers()]
            .repeat(self.initial.len() / 3)
    }

    /// Whether a move out of the slab is undone (and else only punished).
    #[must_use]
    pub fn holds_back(&self) -> bool {
        self.initial.len() != 3 || self.initial[2] != self.goal[2]
    }
}
