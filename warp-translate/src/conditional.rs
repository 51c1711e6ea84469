//! What `#[cfg]` leaves out of some builds. The text is the same for all of them, so it can hold neither one of
//! two forms nor what is there only at times.

use syn::visit::Visit;

/// Why a body cannot have it.
pub(crate) const SENTENCE: &str = "`#[cfg]` cannot choose what a body does, since its CUDA code is the \
    same in all builds; write one form, or make the choice a parameter";

/// Looks for the first `#[cfg]`.
#[derive(Default)]
struct Search {
    found: Option<proc_macro2::Span>,
}

impl Visit<'_> for Search {
    fn visit_attribute(&mut self, attribute: &syn::Attribute) {
        if attribute.path().is_ident("cfg") && self.found.is_none() {
            self.found = Some(syn::spanned::Spanned::span(attribute));
        }
    }
}

/// The attributes of an item.
pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether attributes leave something out of some builds. Alone it is what a body means; of two with one
/// name nobody knows which.
pub(crate) fn is_conditional(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg"))
}

/// Where a function leaves something out of some builds.
pub(crate) fn in_function(function: &syn::ItemFn) -> Option<proc_macro2::Span> {
    let mut search = Search::default();
    function.sig.inputs.iter().for_each(|input| search.visit_fn_arg(input));
    search.visit_block(&function.block);
    search.found
}

/// Whether a type or a constant has parts that some builds leave out.
pub(crate) fn has_conditional_parts(item: &syn::Item) -> bool {
    let mut search = Search::default();
    match item {
        syn::Item::Const(item) => search.visit_expr(&item.expr),
        syn::Item::Enum(item) => item.variants.iter().for_each(|part| search.visit_variant(part)),
        syn::Item::Struct(item) => search.visit_fields(&item.fields),
        _ => {}
    }
    search.found.is_some()
}
