//! Properties of any space, sensible or not.

use proptest::prelude::*;
use warp_core::Space;
use warp_core::space::ACTION_MASK;

fn bound() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>(),
        Just(f32::INFINITY),
        Just(f32::NEG_INFINITY),
        Just(f32::NAN),
        -2.0f32..2.0,
    ]
}

/// Spaces three dictionaries deep, most of them contradictory in some way.
fn space() -> impl Strategy<Value = Space> {
    let leaf = prop_oneof![
        (0usize..5).prop_map(|n| Space::Discrete { n }),
        prop::collection::vec(0usize..4, 0..4).prop_map(|sizes| Space::MultiDiscrete { sizes }),
        (bound(), bound(), prop::collection::vec(0usize..4, 0..3))
            .prop_map(|(low, high, shape)| Space::boxed(low, high, &shape)),
        (prop::collection::vec(bound(), 0..4), prop::collection::vec(bound(), 0..4), 0usize..5)
            .prop_map(|(low, high, n)| Space::Box { low, high, shape: vec![n] }),
    ];
    let key = prop_oneof![Just(ACTION_MASK.to_string()), "[a-cA-C/]{0,2}", ".{0,3}"];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop::collection::vec((key.clone(), inner), 0..4).prop_map(Space::Dict)
    })
}

proptest! {
    #[test]
    fn a_space_is_either_refused_in_a_sentence_or_flattens_without_gaps(space in space()) {
        match space.validate("toy") {
            Err(error) => prop_assert!(error.to_string().starts_with("environment \"toy\": ")),
            Ok(()) => {
                let flat = space.flatten();
                let mut next = 0;
                for entry in &flat.entries {
                    prop_assert_eq!(entry.offset, next);
                    next += entry.width;
                }
                prop_assert_eq!(flat.width, next);
            }
        }
    }

    #[test]
    fn the_order_of_a_dictionarys_keys_does_not_matter(space in space()) {
        if let (Space::Dict(parts), Ok(())) = (&space, space.validate("toy")) {
            let mut turned = parts.clone();
            turned.reverse();
            prop_assert_eq!(Space::Dict(turned).flatten(), space.flatten());
        }
    }

    #[test]
    fn any_numbers_are_inside_or_outside(
        space in space(),
        values in prop::collection::vec(bound(), 0..8),
    ) {
        if space.contains_flat(&values) {
            prop_assert!(values.iter().all(|v| !v.is_nan()));
        }
    }
}
