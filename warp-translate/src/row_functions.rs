//! Files of row functions, which `row_functions! { "file.cu"; NAME = function(...); ... }` declares; the
//! name of the text may be left out.

use crate::Translation;
use crate::diagnostic::Fault;
use crate::modules::Modules;
use std::path::Path;

/// The macro that declares them.
const MACRO: &str = "row_functions";

/// The functions of a file, and the text that it includes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    included: Option<String>,
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
        syn::Item::Macro(found) => {
            let last = found.mac.path.segments.last()?;
            (last.ident == MACRO).then_some(found.mac.tokens)
        }
        _ => None,
    })?;
    let tokens: Vec<proc_macro2::TokenTree> = tokens.into_iter().collect();
    let included: Option<syn::LitStr> = syn::parse2(tokens.first()?.clone().into()).ok();
    // `NAME = function`: what follows each `=`.
    let is_equals = |token: &proc_macro2::TokenTree| token.to_string() == "=";
    let functions = tokens.windows(2).filter(|pair| is_equals(&pair[0]));
    let functions = functions.map(|pair| pair[1].to_string()).collect();
    Some(Declared { included: included.map(|name| name.value()), functions })
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
        let included = self.included.as_ref().map(|name| folder.join(name));
        Ok(Translation { text, included })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_a_file_are_found() {
        let text = "fn helper() {}\nrow_functions! { \"td.cu\";\n A = a draw (x; y; z);\n B = b(; y; z);\n}";
        let functions = vec!["a".to_string(), "b".to_string()];
        let found = |included| Some(Declared { included, functions: functions.clone() });
        assert_eq!(parse(text), found(Some("td.cu".into())));
        assert_eq!(parse(&text.replace("row_functions", "warp_train::row_functions")), parse(text));
        assert_eq!(parse(&text.replace("\"td.cu\";", "")), found(None));
        assert_eq!(parse("fn helper() {}"), None);
    }
}
