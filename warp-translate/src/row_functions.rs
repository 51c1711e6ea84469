//! Files of row functions, which `row_functions! { "file.cu"; NAME = function(...); ... }` declares.

use crate::Translation;
use crate::diagnostic::Fault;
use crate::modules::Modules;
use std::path::Path;

/// The macro that declares them.
const MACRO: &str = "row_functions";

/// The functions of a file, and the text that it includes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    included: String,
    functions: Vec<String>,
}

/// What `file` declares, if it declares row functions.
pub(crate) fn declared(file: &Path) -> Option<Declared> {
    let text = std::fs::read_to_string(file).ok()?;
    text.contains(MACRO).then(|| parse(&text))?
}

fn parse(text: &str) -> Option<Declared> {
    let items = syn::parse_file(text).ok()?.items;
    let tokens = items.into_iter().find_map(|item| match item {
        syn::Item::Macro(found) if found.mac.path.is_ident(MACRO) => Some(found.mac.tokens),
        _ => None,
    })?;
    let tokens: Vec<proc_macro2::TokenTree> = tokens.into_iter().collect();
    let included: syn::LitStr = syn::parse2(tokens.first()?.clone().into()).ok()?;
    // `NAME = function`: what follows each `=`.
    let is_equals = |token: &proc_macro2::TokenTree| token.to_string() == "=";
    let functions = tokens.windows(2).filter(|pair| is_equals(&pair[0]));
    let functions = functions.map(|pair| pair[1].to_string()).collect();
    Some(Declared { included: included.value(), functions })
}

impl Declared {
    /// The functions' text.
    pub(crate) fn translated(
        &self,
        modules: &mut Modules,
        file: &Path,
    ) -> Result<Translation, Vec<Fault>> {
        let names: Vec<&str> = self.functions.iter().map(String::as_str).collect();
        let text = crate::functions(modules, file, &names)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        Ok(Translation { text, included: Some(folder.join(&self.included)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_a_file_are_found() {
        let text = "fn helper() {}\nrow_functions! { \"td.cu\";\n A = a draw (x; y; z);\n B = b(; y; z);\n}";
        let functions = vec!["a".to_string(), "b".to_string()];
        assert_eq!(parse(text), Some(Declared { included: "td.cu".into(), functions }));
        assert_eq!(parse("fn helper() {}"), None);
    }
}
