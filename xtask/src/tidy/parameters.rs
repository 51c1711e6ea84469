//! Functions take named parameters: few have a tuple as parameter, whose parts a caller
//! distinguishes only by their order.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::{TextFile, Tree, Violation};

/// Fewer than one of so many functions of a crate takes a tuple.
const ONE_IN: usize = 100;

/// Lists every such function of a crate that has too many of them.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Functions> = BTreeMap::new();
    for file in tree.texts.iter().filter(|file| file.extension() == "rs") {
        let Some((name, _)) = file.path.split_once('/') else { continue };
        crates.entry(name).or_default().read(file);
    }
    crates.into_iter().flat_map(|(name, functions)| functions.violations(name)).collect()
}

/// The functions of a crate.
#[derive(Default)]
struct Functions {
    n: usize,
    /// Path, line and name of those that take a tuple.
    with_tuple: Vec<(String, usize, String)>,
}

impl Functions {
    /// Adds those of a file; what is no Rust (texts of tests that are refused) has none.
    fn read(&mut self, file: &TextFile) {
        let Ok(parsed) = syn::parse_file(&file.text) else { return };
        let mut signatures = Signatures::default();
        signatures.visit_file(&parsed);
        self.n += signatures.0.len();
        let taking = signatures.0.iter().filter(|signature| takes_a_tuple(signature));
        let found = taking.map(|signature| {
            let line = signature.ident.span().start().line;
            (file.path.clone(), line, signature.ident.to_string())
        });
        self.with_tuple.extend(found);
    }

    fn violations(self, name: &str) -> Vec<Violation> {
        let (found, n) = (self.with_tuple.len(), self.n);
        if found * ONE_IN < n.max(1) {
            return Vec::new();
        }
        let sentence = |function| {
            format!(
                "`{function}` has a tuple as parameter, as {found} of the {n} functions of {name}; \
                 fewer than one of {ONE_IN} may: give it parameters or a struct with names"
            )
        };
        let places = self.with_tuple.into_iter();
        places.map(|(path, line, name)| Violation::new(&path, line, sentence(name))).collect()
    }
}

/// All signatures of a file, those in `impl`, `trait` and `mod` included.
#[derive(Default)]
struct Signatures<'a>(Vec<&'a syn::Signature>);

impl<'a> Visit<'a> for Signatures<'a> {
    fn visit_signature(&mut self, signature: &'a syn::Signature) {
        self.0.push(signature);
        visit::visit_signature(self, signature);
    }
}

/// Whether a parameter is a tuple or a reference to one.
fn takes_a_tuple(signature: &syn::Signature) -> bool {
    signature.inputs.iter().any(|input| match input {
        syn::FnArg::Typed(typed) => is_tuple(&typed.ty),
        syn::FnArg::Receiver(_) => false,
    })
}

fn is_tuple(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, n_others: usize) -> Vec<usize> {
        let others: String = (0..n_others).map(|i| format!("fn f{i}() {{}}\n")).collect();
        let tree = Tree::of(&[("a/src/lib.rs", text), ("a/src/others.rs", &others)]);
        check(&tree).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn tuples_are_found_wherever_functions_stand() {
        let text = "fn a((x, y): (i32, i32)) {}\nimpl A {\n    fn b(&self, at: &mut (u8, u8)) {}\n}\n\
            trait T {\n    fn c(at: (u8, u8));\n}\nmod m {\n    fn d() {\n        fn e(at: (u8,)) {}\n    }\n}\n";
        assert_eq!(found(text, 0), [1, 3, 6, 10]);
    }

    #[test]
    fn types_with_a_tuple_inside_are_none() {
        let text = "fn a(x: &[(u8, u8)], y: Option<(u8, u8)>, z: &impl Fn((u8, u8)), (): ()) -> (u8, u8) {}\n\
            fn b() {\n    let _ = |(x, y): (u8, u8)| x + y;\n}\n// fn c(x: (u8, u8))\n";
        assert_eq!(found(text, 0), [0; 0]);
    }

    #[test]
    fn the_share_counts_over_the_crate() {
        let text = "fn a(at: (u8, u8)) {}\n";
        assert_eq!(found(text, 99), [1]);
        assert_eq!(found(text, 100), [0; 0]);
        // Of another crate they count nothing.
        let others: String = (0..200).map(|i| format!("fn f{i}() {{}}\n")).collect();
        let tree = Tree::of(&[("a/src/lib.rs", text), ("b/src/lib.rs", &others)]);
        assert!(check(&tree)[0].sentence.contains("as 1 of the 1 functions of a;"));
    }

    #[test]
    fn what_is_no_rust_has_no_functions() {
        assert_eq!(found("fn a(at: (u8, u8)) {", 0), [0; 0]);
    }
}
