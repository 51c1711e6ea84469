//! Answers to a command line that can't be understood: one sentence, with what was meant if
//! that can be guessed.

use crate::cli::Cli;
use crate::output::{one_line, plain, tell};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser};
use std::error::Error;
use std::ffi::OsString;
use warp_core::config::nearest;
use warp_func::Registry;
use warp_train::config::known_keys;

/// A command line, its program first; or the exit code, and everything is said.
pub(crate) fn parse(args: &[OsString], registry: &Registry) -> Result<Cli, u8> {
    let error = match Cli::try_parse_from(args) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    if !error.use_stderr() {
        // Help and versions hold no words of the user's. A reader that has left is no error.
        let _ = error.print();
        return Err(0);
    }
    if let (ErrorKind::InvalidUtf8, Some(arg)) = (error.kind(), not_text(args)) {
        tell(&format!("error: the argument {arg:?} is not valid UTF-8"));
        return Err(2);
    }
    // Once more, with arguments that may be shown.
    let args: Vec<String> = args.iter().map(|arg| one_line(&arg.to_string_lossy())).collect();
    let error = Cli::try_parse_from(&args).err().unwrap_or(error);
    match explain(&error, &args, registry) {
        Some(sentence) => tell(&format!("error: {sentence}")),
        None => tell(plain(&error.to_string()).trim_end()),
    }
    Err(2)
}

/// The argument that has to be text and is not; paths need not be.
fn not_text(args: &[OsString]) -> Option<&OsString> {
    args.iter().filter(|arg| arg.to_str().is_none()).find(|arg| {
        let others = args.iter().map(|other| match other == *arg {
            true => other.clone(),
            false => other.to_string_lossy().into_owned().into(),
        });
        Cli::try_parse_from(others).is_err_and(|error| error.kind() == ErrorKind::InvalidUtf8)
    })
}

/// A better sentence than clap's, where there is one.
fn explain(error: &clap::Error, args: &[String], registry: &Registry) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let commands = Cli::command();
    let chosen = args.iter().skip(1).find_map(|arg| commands.find_subcommand(arg));
    let names = || commands.get_subcommands().map(Command::get_name).collect::<Vec<_>>();
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if chosen.is_none() && args.len() > 1 =>
        {
            Some(format!("a command is needed; there are {}", names().join(", ")))
        }
        ErrorKind::InvalidSubcommand => {
            let (word, names) = (context(ContextKind::InvalidSubcommand)?, names());
            let meant = match nearest(word, names.iter().copied()) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("there are {}", names.join(", ")),
            };
            Some(format!("there is no command {word:?}; {meant}"))
        }
        ErrorKind::ValueValidation => {
            let (option, value) =
                (context(ContextKind::InvalidArg)?, context(ContextKind::InvalidValue)?);
            let option = option.split([' ', '=']).next().unwrap_or(option);
            Some(format!("{option} {value}: {}", needed(&error.source()?.to_string())))
        }
        ErrorKind::UnknownArgument => {
            let word = context(ContextKind::InvalidArg)?;
            if let Some(option) = chosen.and_then(|chosen| option_before(word, chosen, args)) {
                return Some(format!("{option} {word}: the number must not be negative"));
            }
            let name = chosen.map_or("", Command::get_name);
            let help = format!("see warp {name} --help").replace("  ", " ");
            let Some(option) = word.strip_prefix("--") else {
                if word.starts_with('-') {
                    return Some(format!("there is no option {word}; {help}"));
                }
                return Some(format!("{word:?} is one argument too many; {help}"));
            };
            let option = option.split('=').next().unwrap_or(option);
            let meant = meant(option, chosen?, args, registry).unwrap_or(help);
            Some(format!("there is no option --{option}; {meant}"))
        }
        _ => None,
    }
}

/// What an option needs whose value was refused for `reason`: Rust's and clap's words for whole numbers as a sentence.
fn needed(reason: &str) -> String {
    let range = reason.split_once(" is not in ").and_then(|(_, range)| range.split_once(".."));
    match (reason, range) {
        ("invalid digit found in string" | "cannot parse integer from empty string", _) => {
            "a whole number is needed".into()
        }
        ("number too large to fit in target type", _) => "the number is too large".into(),
        ("number too small to fit in target type", _) => "the number is too small".into(),
        (_, Some((low, high))) => {
            format!("a whole number from {low} to {} is needed", high.trim_start_matches('='))
        }
        _ => reason.into(),
    }
}

/// The option that `word` is the value of, if it is a negative number behind an option that takes one.
fn option_before<'a>(word: &str, command: &Command, args: &'a [String]) -> Option<&'a str> {
    word.parse::<f64>().ok()?;
    let at = args.iter().position(|arg| arg == word)?;
    let option = args.get(at.checked_sub(1)?)?;
    let name = option.strip_prefix("--")?;
    let takes_value =
        |arg: &clap::Arg| arg.get_long() == Some(name) && arg.get_action().takes_values();
    command.get_arguments().any(takes_value).then_some(option)
}

/// What `--option` was meant to be: a key of the configuration, or another option of `command`.
fn meant(option: &str, command: &Command, args: &[String], registry: &Registry) -> Option<String> {
    let options: Vec<&str> =
        command.get_arguments().filter_map(clap::Arg::get_long).filter(|o| *o != "set").collect();
    let other = || Some(format!("did you mean --{}?", nearest(option, options.iter().copied())?));
    if !command.get_arguments().any(|arg| arg.get_long() == Some("set")) {
        return other();
    }
    let env = args.iter().find_map(|arg| registry.get(arg).ok());
    let env_keys = env.into_iter().flat_map(|entry| entry.fields).map(|field| field.name);
    let keys: Vec<(&str, String)> = known_keys()
        .map(|key| (key, key.to_string()))
        .chain(env_keys.map(|key| (key, format!("env.{key}"))))
        .collect();
    let as_key = |word: &str| {
        let (_, key) = keys.iter().find(|(name, _)| *name == word)?;
        Some(format!("--set {key}={}", value(option, args)))
    };
    let word = option.replace('-', "_");
    match as_key(&word) {
        Some(set) => Some(format!("it is a key of the configuration: {set}")),
        None => other().or_else(|| {
            let near = nearest(&word, keys.iter().map(|(name, _)| *name))?;
            Some(format!("did you mean {}?", as_key(&near)?))
        }),
    }
}

/// What was given to `--option`.
fn value<'a>(option: &str, args: &'a [String]) -> &'a str {
    let of = |at: usize| {
        let rest = args[at].strip_prefix("--")?.strip_prefix(option)?;
        match rest.strip_prefix('=') {
            Some(value) => Some(value),
            None if rest.is_empty() => args.get(at + 1).map(String::as_str),
            None => None,
        }
    };
    let value = (0..args.len()).find_map(of).filter(|value| !value.starts_with("--"));
    value.unwrap_or("VALUE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let args: Vec<String> = line.split(' ').map(String::from).collect();
        let error = Cli::try_parse_from(&args).unwrap_err();
        explain(&error, &args, &warp_envs::registry()).unwrap_or_else(|| error.to_string())
    }

    #[test]
    fn a_line_without_a_command_names_them() {
        let said = said("warp --");
        assert!(said.starts_with("a command is needed; there are train, "), "{said}");
    }

    #[cfg(unix)]
    #[test]
    fn an_argument_that_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let args = |line: &[&[u8]]| -> Vec<OsString> {
            line.iter().map(|arg| OsString::from_vec(arg.to_vec())).collect()
        };
        // A path may have any bytes.
        let path = args(&[b"warp", b"train", b"cartpole", b"--out", b"a\xff"]);
        assert!(Cli::try_parse_from(&path).is_ok());
        let key = args(&[b"warp", b"train", b"cartpole", b"--out", b"a\xff", b"--set", b"b\xfe=1"]);
        assert_eq!(not_text(&key), Some(&key[6]));
        let target = args(&[b"warp", b"train", b"c\xfd.toml"]);
        assert_eq!(format!("{:?}", not_text(&target).unwrap()), r#""c\xFD.toml""#);
    }

    #[test]
    fn an_option_that_is_a_key_is_shown_as_one() {
        for (line, wanted) in [
            (
                "warp train cartpole --learning-rate 0.1",
                "there is no option --learning-rate; it is a key of the configuration: --set learning_rate=0.1",
            ),
            (
                "warp bench cartpole --gamma=0.5 --train",
                "there is no option --gamma; it is a key of the configuration: --set gamma=0.5",
            ),
            (
                "warp train cartpole --episode-length --seed 3",
                "there is no option --episode-length; it is a key of the configuration: --set env.episode_length=VALUE",
            ),
            (
                "warp train cartpole --learning-rat 0.1",
                "there is no option --learning-rat; did you mean --set learning_rate=0.1?",
            ),
            ("warp train cartpole --step 5", "there is no option --step; did you mean --steps?"),
            ("warp eval run --gamma 1", "there is no option --gamma; see warp eval --help"),
            ("warp train cartpole --zebra", "there is no option --zebra; see warp train --help"),
            ("warp trian cartpole", "there is no command \"trian\"; did you mean train?"),
            ("warp eval run -5", "there is no option -5; see warp eval --help"),
            ("warp train cartpole --seed -1", "--seed -1: the number must not be negative"),
            ("warp train cartpole --verbose -1", "there is no option -1; see warp train --help"),
            (
                "warp train cartpole --steps x",
                "--steps x: a whole number from 0 to 9223372036854775807 is needed",
            ),
            ("warp episode run -o a.npz --seed x", "--seed x: a whole number is needed"),
            ("warp episode run -o a.npz --run=1.5", "--run 1.5: a whole number is needed"),
            (
                "warp watch run --episode 4294967295",
                "--episode 4294967295: a whole number from 0 to 4294967294 is needed",
            ),
            ("warp watch run --fps 0", "--fps 0: a whole number from 1 to 100 is needed"),
            (
                "warp train cartpole --threads 1025",
                "--threads 1025: a whole number from 0 to 1024 is needed",
            ),
            (
                "warp eval run --run 99999999999999999999",
                "--run 99999999999999999999: the number is too large",
            ),
            ("warp envs now", "\"now\" is one argument too many; see warp envs --help"),
        ] {
            assert_eq!(said(line), wanted);
        }
        assert!(said("warp fly").starts_with("there is no command \"fly\"; there are train, eval"));
    }
}
