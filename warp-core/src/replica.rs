//! One replica's numbers: state, observations, rewards. They do not depend on the environment's type, so that what is done
//! with them is compiled once for all environments.

use crate::actions::{Ended, GroupAction};
use crate::dimension::field_len;
use crate::draw::{Draw, Purpose};
use crate::env::{Actions, Groups};
use crate::error::{Error, Result};
use crate::space::Space;
use crate::spec::MAX_GROUPS;
use crate::spec::{EnvSpec, LimitEnds};
use crate::state::{Bits, DType, Field, FieldSource};

/// Everything that belongs to one replica but its environment.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) spec: EnvSpec,
    seed: u64,
    pub(crate) index: u32,
    run_step: u32,
    pub(crate) timestep: u32,
    pub(crate) fields: Vec<FieldData>,
    pub(crate) obs: Vec<Vec<f32>>,
    pub(crate) action_mask: Vec<Vec<u8>>,
    pub(crate) global: Vec<f32>,
    pub(crate) reward: Vec<Vec<f32>>,
    pub(crate) alive: Vec<Vec<u8>>,
    pub(crate) statistics: Vec<f32>,
}

/// One field of the state.
#[derive(Debug, Clone)]
pub(crate) enum FieldData {
    F32(Vec<f32>),
    I32(Vec<i32>),
    U32(Vec<u32>),
}

impl Replica {
    /// A replica that has not begun, with a state of these `fields`, whose dimensions have these sizes.
    pub(crate) fn new(
        spec: EnvSpec,
        dims: &[(&'static str, usize)],
        fields: &[Field],
        seed: u64,
        index: u32,
    ) -> Result<Self> {
        spec.validate()?;
        let new_field = |field: &Field| {
            let n = field_len(&spec.name, dims, field)?;
            Ok(match field.dtype {
                DType::F32 => FieldData::F32(vec![0.0; n]),
                DType::I32 => FieldData::I32(vec![0; n]),
                _ => FieldData::U32(vec![0; n]),
            })
        };
        let fields = fields.iter().map(new_field).collect::<Result<Vec<_>>>()?;
        let groups = || spec.groups.iter();
        Ok(Self {
            obs: groups().map(|g| vec![0.0; g.n_agents * g.observation_width()]).collect(),
            action_mask: groups().map(|g| vec![1; g.n_agents * g.mask_width()]).collect(),
            global: vec![0.0; spec.global_observation.as_ref().map_or(0, |s| s.flatten().width)],
            reward: groups().map(|g| vec![0.0; g.n_agents]).collect(),
            alive: groups().map(|g| vec![1; if g.mortal { g.n_agents } else { 0 }]).collect(),
            statistics: vec![0.0; spec.statistics.len()],
            spec,
            seed,
            index,
            run_step: 0,
            timestep: 0,
            fields,
        })
    }

    /// Clears what the last episode left, and returns the draw for the start of the next.
    pub(crate) fn begin_episode(&mut self) -> Draw {
        self.timestep = 0;
        self.statistics.fill(0.0);
        self.alive.iter_mut().for_each(|a| a.fill(1));
        Draw::new(self.seed, self.index, self.run_step, Purpose::Reset)
    }

    /// Counts a step with these actions, clears its rewards, and returns its draw.
    pub(crate) fn begin_step(&mut self, actions: &[GroupAction]) -> Result<Draw> {
        self.check_actions(actions)?;
        self.run_step += 1;
        self.timestep += 1;
        self.reward.iter_mut().for_each(|r| r.fill(0.0));
        Ok(Draw::new(self.seed, self.index, self.run_step, Purpose::Step))
    }

    /// How a step ended, given whether the environment terminated the episode: the time limit is added here.
    pub(crate) fn ended(&self, terminated: bool) -> Ended {
        let mut ended = Ended { terminated, truncated: false };
        if self.timestep >= self.spec.time_limit.steps && !terminated {
            match self.spec.time_limit.ends {
                LimitEnds::Truncated => ended.truncated = true,
                LimitEnds::Terminated => ended.terminated = true,
            }
        }
        ended
    }

    /// What a body forgets to write must be seen as such, not as the last step's value.
    pub(crate) fn forget_observations(&mut self) {
        self.obs.iter_mut().for_each(|o| o.fill(f32::NAN));
        self.action_mask.iter_mut().for_each(|m| m.fill(u8::MAX));
        self.global.fill(f32::NAN);
    }

    fn check_actions(&self, actions: &[GroupAction]) -> Result<()> {
        let fail = |reason: String| {
            Err(Error::InvalidValue {
                key: "actions".into(),
                value: format!("{actions:?}"),
                reason,
            })
        };
        if actions.len() != self.spec.groups.len() {
            return fail(format!(
                "one entry per group is needed, that is {}",
                self.spec.groups.len()
            ));
        }
        for (group, action) in self.spec.groups.iter().zip(actions) {
            let width = group.n_agents * group.action.action_width();
            let fits = match action {
                GroupAction::Discrete(heads) => {
                    let sizes = group.action.head_sizes();
                    let inside = |(a, n): (&i32, &usize)| *a >= 0 && (*a as usize) < *n;
                    let mut pairs = heads.iter().zip(sizes.iter().cycle());
                    !sizes.is_empty() && heads.len() == width && pairs.all(inside)
                }
                GroupAction::Continuous(values) => {
                    matches!(group.action, Space::Box { .. }) && values.len() == width
                }
            };
            if !fits {
                let (name, n) = (&group.name, group.n_agents);
                return fail(format!("group \"{name}\" takes {n} x {}", group.action));
            }
        }
        Ok(())
    }

    /// The bits of every state element, field after field.
    pub(crate) fn state_bits(&self) -> Vec<u32> {
        let bits = |field: &FieldData| match field {
            FieldData::F32(v) => v.iter().map(|x| x.bits()).collect::<Vec<_>>(),
            FieldData::I32(v) => v.iter().map(|x| x.bits()).collect(),
            FieldData::U32(v) => v.clone(),
        };
        self.fields.iter().flat_map(bits).collect()
    }

    /// Overwrites the state with bits that need not be a state at all.
    pub(crate) fn set_state_bits(&mut self, bits: &[u32]) {
        let mut bits = bits.iter();
        let mut next = || bits.next().copied().unwrap_or(0);
        for field in &mut self.fields {
            match field {
                FieldData::F32(v) => v.iter_mut().for_each(|x| *x = Bits::from_bits(next())),
                FieldData::I32(v) => v.iter_mut().for_each(|x| *x = Bits::from_bits(next())),
                FieldData::U32(v) => v.iter_mut().for_each(|x| *x = next()),
            }
        }
    }
}

/// Every group's actions, as environments take them.
pub(crate) fn given(actions: &[GroupAction]) -> Actions<'_> {
    let mut given = Actions::default();
    for (g, action) in actions.iter().enumerate() {
        match action {
            GroupAction::Discrete(heads) => given.discrete[g] = heads,
            GroupAction::Continuous(values) => given.continuous[g] = values,
        }
    }
    given
}

/// One mutable slice per group, empty beyond the last group.
pub(crate) fn per_group<T>(rows: &mut [Vec<T>]) -> Groups<&mut [T]> {
    let mut rows = rows.iter_mut();
    [(); MAX_GROUPS].map(|()| rows.next().map_or(&mut [][..], |row| row.as_mut_slice()))
}

/// Puts the first element of every field, which a view of scalars has by value, back into its place.
pub(crate) fn put_scalars(fields: &mut [FieldData], saved: Vec<u32>) {
    for (field, bits) in fields.iter_mut().zip(saved) {
        match field {
            FieldData::F32(v) => v[0] = f32::from_bits(bits),
            FieldData::I32(v) => v[0] = <i32 as Bits>::from_bits(bits),
            FieldData::U32(v) => v[0] = bits,
        }
    }
}

/// Hands out the fields in order.
pub(crate) struct FieldIter<'a>(pub(crate) std::slice::IterMut<'a, FieldData>);

impl<'a> FieldIter<'a> {
    fn next_as<T: Bits>(&mut self) -> &'a mut [T] {
        let any: Option<&'a mut dyn std::any::Any> = self.0.next().map(|field| match field {
            FieldData::F32(v) => v as &mut dyn std::any::Any,
            FieldData::I32(v) => v,
            FieldData::U32(v) => v,
        });
        // The table and the view come from the same declaration, so the types always agree.
        any.and_then(|v| v.downcast_mut::<Vec<T>>()).map_or(&mut [], Vec::as_mut_slice)
    }
}

impl<'a> FieldSource<'a> for FieldIter<'a> {
    fn bits(&mut self) -> u32 {
        match self.0.next() {
            Some(FieldData::F32(v)) => v[0].bits(),
            Some(FieldData::I32(v)) => v[0].bits(),
            Some(FieldData::U32(v)) => v[0],
            None => 0,
        }
    }
    fn scalar<T: Bits>(&mut self) -> &'a mut T {
        &mut self.next_as()[0]
    }
    fn row<T: Bits>(&mut self) -> &'a mut [T] {
        self.next_as()
    }
}
