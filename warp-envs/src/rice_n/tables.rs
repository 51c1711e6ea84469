//! RICE-N's tables: the regions as they start, and what time alone decides.

use super::regions::{REGIONS, Region};
use super::{N_ACTIVITIES, N_REGIONS};
use warp_core::Table;

/// Years of an activity step.
const YEARS: f64 = 5.0;
/// Price of the backstop technology, USD per ton; how it falls per step; the exponent of mitigation.
const BACKSTOP_PRICE: f64 = 550.0;
const BACKSTOP_DECLINE: f64 = 0.001;
const MITIGATION_EXPONENT: f64 = 2.6;
/// Emissions of land of all regions, and how they fall per step.
const LAND_EMISSIONS: f64 = 2.6;
const LAND_DECLINE: f64 = 0.001;
/// Exogenous forcing at first, at last, and the steps between.
const FORCING: (f64, f64) = (0.5, 1.0);
const FORCING_STEPS: f64 = 20.0;
/// Fall of carbon intensity per year, and how that fall slows.
const INTENSITY_FALL: f64 = 0.0025;
const INTENSITY_SLOWING: f64 = 0.1;
/// Growth of technology per step in the long run.
const LONG_GROWTH: f64 = 0.0033;
/// Rate of time preference, per year.
const TIME_PREFERENCE: f64 = 0.015;

/// See [`Tables::named`]; a row has a number per region, or one per activity step.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) start_capital: Vec<f32>,
    pub(super) start_labor: Vec<f32>,
    pub(super) start_technology: Vec<f32>,
    pub(super) start_intensity: Vec<f32>,
    /// Labour that each region tends to, and the exponent of that.
    pub(super) labor_limit: Vec<f32>,
    pub(super) labor_growth: Vec<f32>,
    /// Factor of technology, `[N_ACTIVITIES, N_REGIONS]`.
    pub(super) technology_factor: Vec<f32>,
    /// Factor of carbon intensity.
    pub(super) intensity_factor: Vec<f32>,
    /// Cost of full mitigation, per carbon intensity.
    pub(super) mitigation_price: Vec<f32>,
    /// Emissions of land, per region.
    pub(super) land_emissions: Vec<f32>,
    /// Exogenous forcing.
    pub(super) forcing: Vec<f32>,
    /// What a utility counts in 2015.
    pub(super) discount: Vec<f32>,
}

impl Tables {
    pub(super) fn new() -> Self {
        let regions = |of: fn(&Region) -> f64| REGIONS.iter().map(|r| of(r) as f32).collect();
        // Steps since the first activity.
        let times = |of: &dyn Fn(f64) -> f64| -> Vec<f32> {
            (0..N_ACTIVITIES).map(|t| of(t as f64) as f32).collect()
        };
        let growth = |t: usize, region: &Region| {
            let fading = (-region.technology_decay * YEARS * t as f64).exp();
            (LONG_GROWTH.exp() + region.technology_growth * fading) as f32
        };
        let price = BACKSTOP_PRICE / (1000.0 * MITIGATION_EXPONENT);
        let rise = (FORCING.1 - FORCING.0) / FORCING_STEPS;
        Tables {
            start_capital: regions(|r| r.capital),
            start_labor: regions(|r| r.labor),
            start_technology: regions(|r| r.technology),
            start_intensity: regions(|r| r.intensity),
            labor_limit: regions(|r| r.labor_limit),
            labor_growth: regions(|r| r.labor_growth),
            technology_factor: (0..N_ACTIVITIES)
                .flat_map(|t| REGIONS.iter().map(move |region| growth(t, region)))
                .collect(),
            intensity_factor: times(&|t| {
                (-INTENSITY_FALL * (1.0 - INTENSITY_SLOWING).powf(YEARS * t) * YEARS).exp()
            }),
            mitigation_price: times(&|t| price * (1.0 - BACKSTOP_DECLINE).powf(t)),
            land_emissions: times(&|t| {
                LAND_EMISSIONS * (1.0 - LAND_DECLINE).powf(t) / N_REGIONS as f64
            }),
            forcing: times(&|t| FORCING.0 + (FORCING.1 - FORCING.0).min(rise * t)),
            discount: times(&|t| (1.0 + TIME_PREFERENCE).powf(-YEARS * (t + 1.0))),
        }
    }

    pub(super) fn named(&self) -> Vec<Table<'_>> {
        let factor = Table::f32("technology_factor", &self.technology_factor);
        vec![
            Table::f32("start_capital", &self.start_capital),
            Table::f32("start_labor", &self.start_labor),
            Table::f32("start_technology", &self.start_technology),
            Table::f32("start_intensity", &self.start_intensity),
            Table::f32("labor_limit", &self.labor_limit),
            Table::f32("labor_growth", &self.labor_growth),
            Table { shape: vec![N_ACTIVITIES, N_REGIONS], ..factor },
            Table::f32("intensity_factor", &self.intensity_factor),
            Table::f32("mitigation_price", &self.mitigation_price),
            Table::f32("land_emissions", &self.land_emissions),
            Table::f32("forcing", &self.forcing),
            Table::f32("discount", &self.discount),
        ]
    }
}
