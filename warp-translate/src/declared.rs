//! What an item declares, as far as a body can use it.

use crate::diagnostic::{Fault, Result};
use crate::source::span_of;
use syn::parse::{Parse, ParseStream};

/// A declaration.
pub(crate) enum Declared {
    Const(Box<syn::ItemConst>),
    Fn(Box<syn::ItemFn>),
    Alias(Box<syn::Type>),
    Struct(Vec<FieldOf>),
    Enum(Vec<Variant>),
    /// `state!`.
    State(Vec<FieldOf>),
    /// `params!`.
    Params(Vec<FieldOf>),
    /// `impl Env for ...`.
    World(Box<syn::ItemImpl>),
    /// What no body can use, and what to write instead.
    Refused(&'static str),
}

/// A field of a struct.
#[derive(Clone)]
pub(crate) struct FieldOf {
    pub(crate) name: String,
    pub(crate) docs: Vec<String>,
    pub(crate) ty: FieldType,
}

/// The type of a field.
#[derive(Clone)]
pub(crate) enum FieldType {
    Plain(Box<syn::Type>),
    /// `[f32; n_agents, 3]` of `state!`: element and dimensions.
    Rows(Box<syn::Type>, Vec<String>),
}

/// A variant of an enum without fields.
#[derive(Clone)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) docs: Vec<String>,
    /// What is written behind `=`.
    pub(crate) value: Option<syn::Expr>,
}

type Named = (String, Vec<String>, Declared);

/// What an item declares: name, documentation and declaration. What no body can use is left out.
pub(crate) fn declared_in(item: &syn::Item, file: usize) -> Result<Vec<Named>> {
    let one = |name: &syn::Ident, attributes: &[syn::Attribute], what: Declared| {
        Ok(vec![(name.to_string(), docs_of(attributes), what)])
    };
    match item {
        syn::Item::Const(item) => {
            one(&item.ident, &item.attrs, Declared::Const(Box::new(item.clone())))
        }
        syn::Item::Fn(item) => {
            one(&item.sig.ident, &item.attrs, Declared::Fn(Box::new(item.clone())))
        }
        syn::Item::Type(item) => one(&item.ident, &item.attrs, Declared::Alias(item.ty.clone())),
        syn::Item::Struct(item) => one(&item.ident, &item.attrs, structure(item)),
        syn::Item::Enum(item) => {
            let variant = |variant: &syn::Variant| Variant {
                name: variant.ident.to_string(),
                docs: docs_of(&variant.attrs),
                value: variant.discriminant.as_ref().map(|(_, value)| value.clone()),
            };
            if item.variants.iter().any(|variant| !variant.fields.is_empty()) {
                let sentence = "enums whose variants have fields are not supported; use a struct with \
                                the kind, as an enum without fields, and the fields of all";
                return one(&item.ident, &item.attrs, Declared::Refused(sentence));
            }
            let variants = item.variants.iter().map(variant).collect();
            one(&item.ident, &item.attrs, Declared::Enum(variants))
        }
        syn::Item::Static(item) => {
            let sentence = "statics are not supported; write a constant, a parameter or a table";
            one(&item.ident, &item.attrs, Declared::Refused(sentence))
        }
        syn::Item::Macro(item) => {
            let name = item.mac.path.segments.last().map(|segment| segment.ident.to_string());
            let what = match name.as_deref() {
                Some("state") => Declared::State,
                Some("params") => Declared::Params,
                _ => return Ok(Vec::new()),
            };
            let record: Record = item.mac.parse_body().map_err(|error| syntax(file, &error))?;
            Ok(vec![(record.name, record.docs, what(record.fields))])
        }
        _ => Ok(Vec::new()),
    }
}

fn structure(item: &syn::ItemStruct) -> Declared {
    let field = |(i, field): (usize, &syn::Field)| FieldOf {
        name: field.ident.as_ref().map_or_else(|| format!("_{i}"), ToString::to_string),
        docs: docs_of(&field.attrs),
        ty: FieldType::Plain(Box::new(field.ty.clone())),
    };
    Declared::Struct(item.fields.iter().enumerate().map(field).collect())
}

/// The body of `state!` or `params!`.
struct Record {
    docs: Vec<String>,
    name: String,
    fields: Vec<FieldOf>,
}

impl Parse for Record {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let docs = docs_of(&input.call(syn::Attribute::parse_outer)?);
        input.parse::<syn::Visibility>()?;
        input.parse::<syn::Token![struct]>()?;
        let name = input.parse::<syn::Ident>()?.to_string();
        let content;
        syn::braced!(content in input);
        let fields = content.parse_terminated(FieldOf::parse, syn::Token![,])?;
        Ok(Self { docs, name, fields: fields.into_iter().collect() })
    }
}

impl Parse for FieldOf {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let docs = docs_of(&input.call(syn::Attribute::parse_outer)?);
        input.parse::<syn::Visibility>()?;
        let name = input.parse::<syn::Ident>()?.to_string();
        input.parse::<syn::Token![:]>()?;
        if !input.peek(syn::token::Bracket) {
            return Ok(Self { name, docs, ty: FieldType::Plain(input.parse()?) });
        }
        let content;
        syn::bracketed!(content in input);
        let element: syn::Type = content.parse()?;
        content.parse::<syn::Token![;]>()?;
        // A constant stands in braces, since a bare name is a dimension.
        if content.peek(syn::token::Brace)
            || (content.peek(syn::LitInt) && !content.peek2(syn::Token![,]))
        {
            let len: syn::Expr = content.parse()?;
            let ty = syn::parse_quote!([#element; #len]);
            return Ok(Self { name, docs, ty: FieldType::Plain(Box::new(ty)) });
        }
        let dims = content.parse_terminated(dimension, syn::Token![,])?;
        Ok(Self { name, docs, ty: FieldType::Rows(Box::new(element), dims.into_iter().collect()) })
    }
}

/// A dimension of a row, as C++ has it: a name, or a number of type `usize`.
fn dimension(input: ParseStream<'_>) -> syn::Result<String> {
    if input.peek(syn::LitInt) {
        let number: syn::LitInt = input.parse()?;
        return Ok(format!("{}u", number.base10_digits()));
    }
    Ok(input.parse::<syn::Ident>()?.to_string())
}

/// The lines of `///` and `//!`.
pub(crate) fn docs_of(attributes: &[syn::Attribute]) -> Vec<String> {
    let mut docs = Vec::new();
    for attribute in attributes {
        let syn::Meta::NameValue(pair) = &attribute.meta else { continue };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
            continue;
        };
        if pair.path.is_ident("doc") {
            for line in text.value().lines() {
                docs.push(line.strip_prefix(' ').unwrap_or(line).trim_end().to_string());
            }
        }
    }
    docs
}

/// Turns a parser's error into one of ours.
fn syntax(file: usize, error: &syn::Error) -> Fault {
    let span = error.span();
    Fault { span: span_of(file, span.start(), span.end()), sentence: error.to_string() }
}
