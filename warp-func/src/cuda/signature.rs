//! What a kernel takes, read from its text, so that a launch can be checked before it happens.

use warp_core::DType;

/// One parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parameter {
    /// A pointer to elements of this type; `None`: to anything else.
    Pointer(Option<DType>),
    /// A value of this C type, which is no struct.
    Value(String),
    /// A struct of this name that holds numbers alone.
    Numbers(String),
    /// A struct of this name that holds pointers.
    Pointers(String),
}

/// The parameters of kernel `name`, if `text` defines it.
pub(super) fn parse(text: &str, name: &str) -> Option<Vec<Parameter>> {
    let at =
        text.match_indices(name).map(|(at, _)| at).find(|at| is_definition(text, *at, name))?;
    let rest = text[at + name.len()..].trim_start().strip_prefix('(')?;
    let inner = &rest[..rest.find(')')?];
    Some(
        inner
            .split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(|p| parameter(text, p))
            .collect(),
    )
}

/// Whether the `name` at `at` is a kernel's: `__global__` stands between the last statement and it.
fn is_definition(text: &str, at: usize, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let apart = !text[..at].ends_with(word) && !text[at + name.len()..].starts_with(word);
    let start = text[..at].rfind([';', '}', '{']).map_or(0, |end| end + 1);
    apart && text[start..at].contains("__global__")
}

fn parameter(all: &str, text: &str) -> Parameter {
    let words = |text: &str| {
        let kept = text.split_whitespace().filter(|w| !QUALIFIERS.contains(w));
        kept.collect::<Vec<_>>().join(" ")
    };
    if let Some((pointee, _)) = text.split_once('*') {
        return Parameter::Pointer(dtype(&words(pointee)));
    }
    let text = words(text);
    // The last word is the parameter's name.
    let c_type = text.rsplit_once(' ').map_or(text.as_str(), |(c_type, _)| c_type).to_string();
    match holds_pointers(all, &c_type) {
        Some(true) => Parameter::Pointers(c_type),
        Some(false) => Parameter::Numbers(c_type),
        None => Parameter::Value(c_type),
    }
}

/// Whether struct `name` holds a pointer, itself or in another struct; none if `text` defines no such
/// struct.
fn holds_pointers(text: &str, name: &str) -> Option<bool> {
    let body = struct_body(text, name)?;
    let code: String = body.lines().filter_map(|line| line.split("//").next()).collect();
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    let inner = |word: &str| word != name && holds_pointers(text, word) == Some(true);
    Some(code.contains(['*', '&']) || words.any(inner))
}

/// What stands between the braces of struct `name`.
fn struct_body<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let definitions = text.match_indices("struct").filter_map(|(at, keyword)| {
        let rest = text[at + keyword.len()..].trim_start().strip_prefix(name)?;
        rest.trim_start().strip_prefix('{')
    });
    let rest = definitions.into_iter().next().filter(|_| !name.is_empty())?;
    let mut depth = 1;
    let end = rest.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    })?;
    Some(&rest[..end])
}

const QUALIFIERS: [&str; 5] = ["const", "__restrict__", "volatile", "__grid_constant__", "struct"];

fn dtype(c_type: &str) -> Option<DType> {
    [DType::F32, DType::I32, DType::U32, DType::U8].into_iter().find(|d| d.c_name() == c_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_from_the_text() {
        let text = "__device__ void step(int x) {}\n\
            struct WarpRun { unsigned int n; // a number * a number\n float gamma; };\n\
            struct Inner { float* state; };\nstruct WarpArrays { Inner inner[2]; int n; };\n\
            extern \"C\" __global__ void __launch_bounds__(256, 2)\n\
            step_all(const float* __restrict__ obs, unsigned char *flag, half* h,\n\
                     const __grid_constant__ WarpRun run, WarpArrays a, unsigned int n, float gamma) { step(1); }";
        let expected = vec![
            Parameter::Pointer(Some(DType::F32)),
            Parameter::Pointer(Some(DType::U8)),
            Parameter::Pointer(None),
            Parameter::Numbers("WarpRun".into()),
            Parameter::Pointers("WarpArrays".into()),
            Parameter::Value("unsigned int".into()),
            Parameter::Value("float".into()),
        ];
        assert_eq!(parse(text, "step_all"), Some(expected));
        assert_eq!(parse(text, "step"), None);
        assert_eq!(parse("extern \"C\" __global__ void tick() {}", "tick"), Some(vec![]));
    }
}
