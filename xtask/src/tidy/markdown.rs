//! Links of Markdown pages to files of the workspace lead somewhere, and the versions of the crates
//! have their section in CHANGELOG.md.

use super::{TextFile, Tree, Violation};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let pages = tree.texts.iter().filter(|file| file.extension() == "md");
    let mut found: Vec<Violation> = pages.flat_map(|page| dead_links(tree, page)).collect();
    found.extend(unknown_version(tree));
    found.extend(unlisted_chapters(tree));
    found.extend(links_out_of_the_book(tree));
    found
}

/// The list of the book's chapters, and the folder that they lie in.
const SUMMARY: &str = "docs/SUMMARY.md";
const BOOK: &str = "docs/";

/// Links of chapters to files that the book does not hold.
fn links_out_of_the_book(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for page in tree.texts.iter().filter(|page| page.extension() == "md") {
        for (line, text) in page.lines().filter(|_| page.path.starts_with(BOOK)) {
            let text = without_code(text);
            let file = |link: &&str| resolve(&page.path, link.split('#').next().unwrap_or(link));
            let leaves = |link: &&str| file(link).is_some_and(|path| !path.starts_with(BOOK));
            let local = |link: &&str| !link.contains("://") && !link.starts_with('#');
            for link in links(&text).into_iter().filter(|link| local(link) && leaves(link)) {
                let sentence =
                    format!("the link `{link}` leaves the book; name the file in backticks");
                found.push(Violation::new(&page.path, line, sentence));
            }
        }
    }
    found
}

/// Chapters that the list does not name: the book would be without them.
fn unlisted_chapters(tree: &Tree) -> Vec<Violation> {
    let Some(summary) = tree.text(SUMMARY) else { return Vec::new() };
    let listed: Vec<&str> = summary.lines().flat_map(|(_, line)| links(line)).collect();
    let chapter = |file: &TextFile| {
        let name = file.path.strip_prefix(BOOK)?;
        let is_missing = name != "SUMMARY.md" && name.ends_with(".md") && !listed.contains(&name);
        is_missing.then(|| Violation::new(&file.path, 1, format!("{SUMMARY} does not list it")))
    };
    tree.texts.iter().filter_map(chapter).collect()
}

fn dead_links(tree: &Tree, page: &TextFile) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (line, text) in page.lines() {
        if text.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let text = without_code(text);
        for link in links(&text).into_iter().filter(|link| !leads_somewhere(tree, page, link)) {
            let sentence = format!("the link `{link}` leads to no file of the workspace");
            found.push(Violation::new(&page.path, line, sentence));
        }
    }
    found
}

/// The line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("` `")
}

/// Targets of `[text](target)`, `[label]: target` and `src="target"`.
fn links(line: &str) -> Vec<&str> {
    let until = |start: &'static str, end: char| {
        line.split(start).skip(1).filter_map(move |after| after.split(end).next())
    };
    let mut targets: Vec<&str> = until("](", ')').chain(until("src=\"", '"')).collect();
    let label = line.strip_prefix('[').filter(|text| !text.starts_with('^'));
    targets.extend(label.and_then(|text| text.split_once("]: ")).map(|(_, target)| target));
    let first_word = |target: &'_ str| target.split_whitespace().next().map(str::len);
    let targets = targets.into_iter().map(str::trim);
    targets
        .map(|target| target[..first_word(target).unwrap_or(0)].trim_matches(['<', '>']))
        .collect()
}

fn leads_somewhere(tree: &Tree, page: &TextFile, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") || link.starts_with('#') {
        return true;
    }
    let file = link.split('#').next().unwrap_or(link);
    resolve(&page.path, file).is_some_and(|path| tree.paths.contains(&path))
}

/// The path that a relative link means, from the root; none above the root.
fn resolve(page: &str, link: &str) -> Option<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    if link.is_empty() || link.starts_with('/') {
        return None;
    }
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The workspace's version, unless CHANGELOG.md has a section for it.
fn unknown_version(tree: &Tree) -> Option<Violation> {
    let changelog = tree.text("CHANGELOG.md")?;
    let manifest: toml::Table = tree.text("Cargo.toml")?.text.parse().ok()?;
    let version = manifest.get("workspace")?.get("package")?.get("version")?.as_str()?;
    let heading = |line: &str| line.strip_prefix("## ").map(str::to_owned);
    let mut headings = changelog.text.lines().filter_map(heading);
    let names_it = |heading: String| {
        heading.split_whitespace().next().map(|word| word.trim_matches(['[', ']'])) == Some(version)
    };
    if headings.any(names_it) {
        return None;
    }
    Some(Violation::new("CHANGELOG.md", 1, format!("there is no section `## {version}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text), ("docs/a.md", ""), ("README.md", "")]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[a](docs/a.md#top) [b](https://x.y/z) [c](#here) ![d](<docs/a.md> \"title\")\n\
                    [e]: docs/\n<img src=\"README.md\">\n`[f](none.md)`\n```\n[g](none.md)\n```\n";
        assert_eq!(found("CONTRIBUTING.md", text), [""; 0]);
        assert_eq!(found("docs/b.md", "[b](a.md)\n"), [""; 0]);
        assert_eq!(found("src/b.md", "[a](../README.md) [b](../docs/a.md)\n"), [""; 0]);
    }

    #[test]
    fn dead_links_are_reported_with_their_line() {
        let sentence = "the link `none.md` leads to no file of the workspace";
        assert_eq!(found("b.md", "x\n[a](none.md)\n"), [format!("b.md:2: {sentence}")]);
        assert_eq!(found("b.md", "[a]: none.md\n"), [format!("b.md:1: {sentence}")]);
        assert_eq!(found("docs/b.md", "[a](docs/a.md) [b](../../up.md) [c](/etc)\n").len(), 3);
    }

    #[test]
    fn chapters_link_within_the_book() {
        let sentence = "the link `../README.md#x` leaves the book; name the file in backticks";
        let text = "[a](../README.md#x) [b](a.md) [c](https://x.y) `[d](../README.md)`\n";
        assert_eq!(found("docs/b.md", text), [format!("docs/b.md:1: {sentence}")]);
    }

    #[test]
    fn every_chapter_of_the_guide_is_listed() {
        let chapter = |name: &'static str| (name, "# A chapter\n");
        let summary = ("docs/SUMMARY.md", "- [A](guide/src/a.md)\n");
        let [a, b] = ["docs/guide/src/a.md", "docs/guide/src/b.md"].map(chapter);
        assert!(check(&Tree::of(&[summary, a])).is_empty());
        let found: Vec<String> =
            check(&Tree::of(&[summary, a, b])).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["docs/guide/src/b.md:1: docs/SUMMARY.md does not list it"]);
    }

    #[test]
    fn the_version_has_its_section() {
        let manifest = ("Cargo.toml", "[workspace.package]\nversion = '0.1.0'\n");
        for (changelog, n_found) in [("## [0.1.0] - now\n", 0), ("## 0.1.0\n", 0), ("## 0.1\n", 1)]
        {
            let tree = Tree::of(&[manifest, ("CHANGELOG.md", changelog)]);
            assert_eq!(check(&tree).len(), n_found, "{changelog}");
        }
    }
}
