//! Libraries that are opened at run time: under which names and where they are looked for, and whether they
//! have the functions that are called.

use crate::error::Error;

/// The file names under which the loader looks for a library, and the folders.
#[must_use]
pub fn searched(library: &str) -> String {
    let names = cudarc::get_lib_name_candidates(library);
    let mut names = names.iter().filter(|name| !name.contains("64"));
    let first = names.next().map_or("", String::as_str);
    let others: Vec<_> =
        names.map(|name| name.trim_start_matches("lib").trim_start_matches(library)).collect();
    let place = match std::env::var("LD_LIBRARY_PATH") {
        Ok(path) if !path.is_empty() => {
            format!("LD_LIBRARY_PATH ({path}) and the system's library folders were searched")
        }
        _ => "the system's library folders were searched, and LD_LIBRARY_PATH is not set".into(),
    };
    format!("{first} ({}) can't be opened; {place}", others.join(", "))
}

/// What is wrong with a library, where `has` says whether it has a function: the first of `needed`,
/// functions with the CUDA versions that added them, that it lacks. Calling that would end the process.
#[must_use]
pub fn incomplete(
    library: &str,
    needed: &[(&str, &str)],
    has: impl Fn(&[u8]) -> bool,
) -> Option<Error> {
    let lacks = |(function, _): &&(&str, &str)| !has(format!("{function}\0").as_bytes());
    let (function, since) = needed.iter().find(lacks)?;
    let (library, function, since) = (library.into(), (*function).into(), (*since).into());
    Some(Error::OldLibrary { library, function, since })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_searched_has_names_and_folders() {
        let text = searched("cuda");
        assert!(text.starts_with("libcuda.so (.so.13, ") && text.contains(".so.1)"), "{text}");
        assert!(text.contains("LD_LIBRARY_PATH"), "{text}");
    }

    #[test]
    fn the_first_function_that_is_lacking_is_named() {
        let needed = [("cuInit", "1.0"), ("cuNew", "99.0"), ("cuNewer", "99.9")];
        let error = incomplete("libcuda.so", &needed, |name| name == b"cuInit\0").unwrap();
        let text = "libcuda.so has no function cuNew, which came with CUDA 99.0: the library is \
                    older, or is not this library";
        assert_eq!(error.to_string(), text);
        assert_eq!(incomplete("libcuda.so", &needed, |_| true), None);
    }
}
