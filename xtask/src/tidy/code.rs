//! What of a Rust file is code: neither comments nor literals.

/// The source with blanks for comments and literals; line breaks stay where they are.
pub(super) fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = no_code(rest);
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            let (text, after) = rest.split_at(skipped);
            code.extend(text.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
            rest = after;
        }
    }
    code
}

/// Length in bytes of the comment or literal that the text begins with, or 0.
fn no_code(text: &str) -> usize {
    let length = if text.starts_with("//") {
        text.find('\n')
    } else if text.starts_with("/*") {
        block_comment(text)
    } else if text.starts_with('"') {
        string(text)
    } else if text.starts_with('r') {
        return raw_string(text);
    } else if text.starts_with('\'') {
        return character(text);
    } else {
        return 0;
    };
    length.unwrap_or(text.len())
}

/// Block comments nest in Rust.
fn block_comment(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += text[at..].chars().next()?.len_utf8();
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

fn string(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        if letter == '"' && !escaped {
            return Some(at + 1);
        }
        escaped = letter == '\\' && !escaped;
    }
    None
}

/// `r"..."` with any number of `#`; 0 for a raw identifier or a plain word.
fn raw_string(text: &str) -> usize {
    let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
    if !text[1 + hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    text[body..].find(&end).map_or(text.len(), |at| body + at + end.len())
}

/// A character literal; 0 for a lifetime or a label.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    let Some((_, first)) = letters.next() else { return 0 };
    if first == '\\' {
        // The escaped letter may itself be a quote.
        let end = letters.skip(1).find(|(_, letter)| *letter == '\'');
        return end.map_or(0, |(at, _)| at + 1);
    }
    match letters.next() {
        Some((at, '\'')) => at + 1,
        _ => 0,
    }
}
