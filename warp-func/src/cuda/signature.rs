//! A kernel's parameters, read from its source, so that a launch can be checked beforehand.

use std::collections::HashMap;
use warp_core::DType;

/// One parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parameter {
    /// A pointer to elements of this type; `None`: to anything else that holds no pointers.
    Pointer(Option<DType>),
    /// A pointer to structs of this name that hold pointers.
    Structs {
        name: String,
        /// It and the structs in it.
        definitions: Vec<Definition>,
    },
    /// A value of this C type, which is no struct.
    Value(String),
    /// A struct.
    Struct {
        name: String,
        /// Whether it holds a pointer, itself or in another struct.
        pointers: bool,
        /// It and the structs in it.
        definitions: Vec<Definition>,
    },
}

/// What a text says of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    /// The declarations of its members, their words one space apart.
    pub(super) members: Vec<String>,
}

impl Definition {
    fn has_pointers(&self) -> bool {
        self.members.iter().any(|member| member.contains(['*', '&']))
    }

    /// The types of the members, each without its name.
    fn types(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.split(' ').next().unwrap_or(member))
    }
}

/// Struct `name` of `definitions` as a parameter, if it is there.
pub(super) fn parameter_of(definitions: &[Definition], name: &str) -> Option<Parameter> {
    let mut own: Vec<Definition> = Vec::new();
    let mut left = vec![name];
    while let Some(name) = left.pop() {
        let found = definitions.iter().find(|definition| definition.name == name);
        let known = own.iter().any(|definition| definition.name == name);
        if let Some(definition) = found.filter(|_| !known) {
            own.push(definition.clone());
            left.extend(definition.types());
        }
    }
    let pointers = own.iter().any(Definition::has_pointers);
    let name = own.first()?.name.clone();
    Some(Parameter::Struct { name, pointers, definitions: own })
}

/// The structs that struct `name` of `definitions` is made of, in order, as parameters; none if it has
/// members of another kind.
pub(super) fn parts_of(definitions: &[Definition], name: &str) -> Option<Vec<Parameter>> {
    let definition = definitions.iter().find(|definition| definition.name == name)?;
    definition.types().map(|part| parameter_of(definitions, part)).collect()
}

/// The parameters of kernel `name`, if `text` defines it.
pub(super) fn parse(text: &str, name: &str) -> Option<Vec<Parameter>> {
    let at =
        text.match_indices(name).map(|(at, _)| at).find(|at| is_definition(text, *at, name))?;
    let rest = text[at + name.len()..].trim_start().strip_prefix('(')?;
    let inner = &rest[..rest.find(')')?];
    let structs = structs(text);
    Some(
        inner
            .split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(|p| parameter(&structs, p))
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

fn parameter(all: &Structs<'_>, text: &str) -> Parameter {
    let words = |text: &str| {
        let kept = text.split_whitespace().filter(|w| !QUALIFIERS.contains(w));
        kept.collect::<Vec<_>>().join(" ")
    };
    if let Some((pointee, _)) = text.split_once('*') {
        let name = words(pointee);
        let mut definitions = Vec::new();
        collect(all, &name, &mut definitions);
        return match definitions.iter().any(Definition::has_pointers) {
            true => Parameter::Structs { name, definitions },
            false => Parameter::Pointer(dtype(&name)),
        };
    }
    let text = words(text);
    // The last word is the parameter's name.
    let c_type = text.rsplit_once(' ').map_or(text.as_str(), |(c_type, _)| c_type).to_string();
    let mut definitions = Vec::new();
    collect(all, &c_type, &mut definitions);
    if definitions.is_empty() {
        return Parameter::Value(c_type);
    }
    let pointers = definitions.iter().any(Definition::has_pointers);
    Parameter::Struct { name: c_type, pointers, definitions }
}

/// Adds the definitions of struct `name`, if there is one, and of those that it mentions.
fn collect(all: &Structs<'_>, name: &str, found: &mut Vec<Definition>) {
    if found.iter().any(|definition| definition.name == name) {
        return;
    }
    let Some(body) = all.get(name).and_then(|rest| struct_body(rest)) else { return };
    let lines = body.lines().filter_map(|line| line.split("//").next());
    let code = lines.collect::<Vec<_>>().join(" ");
    let declarations = code
        .split(';')
        .map(|declaration| declaration.split_whitespace().collect::<Vec<_>>().join(" "));
    let members = declarations.filter(|declaration| !declaration.is_empty()).collect();
    found.push(Definition { name: name.into(), members });
    for word in code.split(|c: char| !c.is_alphanumeric() && c != '_') {
        collect(all, word, found);
    }
}

/// What follows the opening brace of each struct of a text, by name.
type Structs<'t> = HashMap<&'t str, &'t str>;

/// The structs that `text` defines; of one name the first.
fn structs(text: &str) -> Structs<'_> {
    let mut all = Structs::new();
    for (at, keyword) in text.match_indices("struct") {
        let rest = text[at + keyword.len()..].trim_start();
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        if let Some(body) =
            rest[name.len()..].trim_start().strip_prefix('{').filter(|_| !name.is_empty())
        {
            all.entry(name).or_insert(body);
        }
    }
    all
}

/// What stands before the brace that closes a struct whose first brace came before `rest`.
fn struct_body(rest: &str) -> Option<&str> {
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
        let of = |name: &str, pointers, definitions: &[(&str, &[&str])]| {
            let definition = |(name, members): &(&str, &[&str])| Definition {
                name: (*name).into(),
                members: members.iter().map(|member| (*member).into()).collect(),
            };
            let definitions = definitions.iter().map(definition).collect();
            Parameter::Struct { name: name.into(), pointers, definitions }
        };
        let expected = vec![
            Parameter::Pointer(Some(DType::F32)),
            Parameter::Pointer(Some(DType::U8)),
            Parameter::Pointer(None),
            of("WarpRun", false, &[("WarpRun", &["unsigned int n", "float gamma"])]),
            of(
                "WarpArrays",
                true,
                &[("WarpArrays", &["Inner inner[2]", "int n"]), ("Inner", &["float* state"])],
            ),
            Parameter::Value("unsigned int".into()),
            Parameter::Value("float".into()),
        ];
        assert_eq!(parse(text, "step_all"), Some(expected));
        assert_eq!(parse(text, "step"), None);
        assert_eq!(parse("extern \"C\" __global__ void tick() {}", "tick"), Some(vec![]));
    }
}
