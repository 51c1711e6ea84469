//! Actions that Python hands over, by group of agents, in the form that replicas take.

use super::numbers::{Argument, Shape};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warp_core::single::GroupAction;
use warp_core::{EnvSpec, GroupSpec, Space};

/// How agents of a group are told what to do.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) group: String,
    pub(super) discrete: bool,
    /// The shape of one replica's actions.
    pub(super) item: Vec<usize>,
    /// Elements of it.
    width: usize,
}

/// The forms of all groups; without `by_group` those of the only agent.
pub(super) fn forms(spec: &EnvSpec, by_group: bool) -> Vec<Form> {
    let form = |group: &GroupSpec| {
        let mut item = match &group.action {
            Space::Box { shape, .. } => shape.clone(),
            Space::MultiDiscrete { sizes } => vec![sizes.len()],
            _ => Vec::new(),
        };
        if by_group {
            item.insert(0, group.n_agents);
        }
        Form {
            group: group.name.clone(),
            discrete: !matches!(group.action, Space::Box { .. }),
            item,
            width: group.n_agents * group.action.action_width(),
        }
    };
    spec.groups.iter().map(form).collect()
}

/// Reads the actions of `rows` replicas, by group an array each, into `to`, whose memory is used again.
pub(super) fn read(
    forms: &[Form],
    by_group: bool,
    given: &Bound<'_, PyAny>,
    rows: usize,
    to: &mut Vec<GroupAction>,
) -> PyResult<()> {
    to.resize_with(forms.len(), || GroupAction::Discrete(Vec::new()));
    if !by_group {
        // One environment's step is shorter than an allocation or two.
        return read_one(&forms[0], Argument { name: "actions", value: given }, rows, &mut to[0]);
    }
    for ((form, given), to) in forms.iter().zip(of_groups(forms, by_group, given)?).zip(to) {
        read_one(form, Argument { name: &given.name, value: &given.value }, rows, to)?;
    }
    Ok(())
}

/// The actions of one group, and what errors call them.
#[derive(Debug)]
pub(super) struct OfGroup<'py> {
    pub(super) name: String,
    pub(super) value: Bound<'py, PyAny>,
}

/// What is given for each group: all of it, or by group an entry of a dictionary.
pub(super) fn of_groups<'py>(
    forms: &[Form],
    by_group: bool,
    given: &Bound<'py, PyAny>,
) -> PyResult<Vec<OfGroup<'py>>> {
    if !by_group {
        return Ok(vec![OfGroup { name: "actions".into(), value: given.clone() }]);
    }
    let given = given.cast::<PyDict>().map_err(|_| {
        let kind = given.get_type();
        PyTypeError::new_err(format!("actions of {kind} are not a dictionary of arrays by group"))
    })?;
    for key in given.keys() {
        let named = |form: &Form| key.eq(&form.group);
        if !forms.iter().map(named).collect::<PyResult<Vec<bool>>>()?.contains(&true) {
            let key = key.repr()?;
            return Err(PyValueError::new_err(format!("actions have the unknown group {key}")));
        }
    }
    let of_group = |form: &Form| {
        let missing = || PyValueError::new_err(format!("actions lack the group '{}'", form.group));
        let value = given.get_item(&form.group)?.ok_or_else(missing)?;
        Ok(OfGroup { name: format!("actions['{}']", form.group), value })
    };
    forms.iter().map(of_group).collect()
}

fn read_one(
    form: &Form,
    argument: Argument<'_, '_>,
    rows: usize,
    to: &mut GroupAction,
) -> PyResult<()> {
    let shape = Shape { rows: Some(rows), item: &form.item };
    if form.discrete {
        let mut heads = match std::mem::replace(to, GroupAction::Discrete(Vec::new())) {
            GroupAction::Discrete(heads) => heads,
            GroupAction::Continuous(_) => Vec::new(),
        };
        heads.clear();
        argument.integers(shape, &mut heads)?;
        *to = GroupAction::Discrete(heads);
    } else {
        let mut values = match std::mem::replace(to, GroupAction::Discrete(Vec::new())) {
            GroupAction::Continuous(values) => values,
            GroupAction::Discrete(_) => Vec::new(),
        };
        values.clear();
        argument.reals(shape, &mut values)?;
        *to = GroupAction::Continuous(values);
    }
    Ok(())
}

/// Actions that nobody takes, of `rows` replicas that begin an episode.
pub(super) fn idle(forms: &[Form], rows: usize, to: &mut Vec<GroupAction>) {
    to.clear();
    to.extend(forms.iter().map(|form| match form.discrete {
        true => GroupAction::Discrete(vec![0; form.width * rows]),
        false => GroupAction::Continuous(vec![0.0; form.width * rows]),
    }));
}
