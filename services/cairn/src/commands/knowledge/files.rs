//! The files of pages: found in folders, given ids, and read.

use crate::commands::text_file::{bytes, unreadable};
use crate::error::CliError;
use cairn_agents::document::decode;
use cairn_agents::page::{self, MAX_PAGE_FILE, PageFile};
use cairn_agents::{AgentError, Fault};
use cairn_engine::key::{digest, hex};
use cairn_engine::limits::{MAX_PAGE_TITLE, is_page_line};
use cairn_engine::text::counted;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Most bytes of an id.
pub(super) const MAX_ID: usize = 128;
/// Most pages, and most bytes of their texts, of a namespace.
const MOST_PAGES: usize = 50_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Endings of the files that count in a folder.
const ENDINGS: [&str; 3] = ["markdown", "md", "txt"];
/// Most faults, and most files of one id, that a message shows.
const SHOWN: usize = 20;

/// A file, and the id of its page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) id: String,
    /// Whether the id lacks characters of the name.
    is_coined: bool,
}

impl Found {
    /// The name is the path in the folder that was named.
    fn new(path: PathBuf, name: &Path) -> Self {
        let stem = name.with_extension("");
        let stem = stem.to_string_lossy();
        Self {
            path,
            id: id_of(&stem),
            is_coined: !stem.chars().all(is_kept),
        }
    }
}

/// A page as its file has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Not set for standard input.
    pub(super) path: Option<String>,
    /// Not set if the service is to choose one.
    pub(super) id: Option<String>,
    /// Whether the id says too little, so that messages about the page name its title, too.
    pub(super) is_coined: bool,
    pub(super) title: String,
    pub(super) text: String,
    pub(super) tags: Vec<String>,
}

/// The files of paths, in the order of the paths: each path itself, or the text files of a folder and of the folders in
/// it. Hidden files and hidden folders do not count. Neither do links: a folder of others could have one to a file that
/// models must not see.
///
/// # Errors
/// A folder that cannot be read or has no such file; too many files.
pub(super) fn find(paths: &[PathBuf]) -> Result<Vec<Found>, CliError> {
    let mut found: Vec<Found> = Vec::new();
    for path in paths {
        if !path.is_dir() {
            let name = Path::new(path.file_name().unwrap_or_default());
            found.push(Found::new(path.clone(), name));
            continue;
        }
        let files = of_folder(path)?;
        if files.is_empty() {
            let endings = ENDINGS.join(", .");
            let path = path.display();
            let message =
                format!("{path} is a folder without pages: files whose names end in .{endings}");
            return Err(CliError::usage(message));
        }
        found.extend(files);
    }
    match found.len() > MOST_PAGES {
        true => {
            let count = found.len();
            let message =
                format!("these are {count} files; there are at most {MOST_PAGES} pages in all");
            Err(CliError::usage(message))
        }
        false => Ok(found),
    }
}

fn of_folder(root: &Path) -> Result<Vec<Found>, CliError> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |error: io::Error| faulty(&[unreadable(&folder, &error)], 1);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            let kind = entry.file_type().map_err(failed)?;
            if is_hidden || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if is_page(&path) {
                let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
                found.push(Found::new(path, &name));
            }
        }
    }
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn is_page(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    ENDINGS.iter().any(|it| ending.eq_ignore_ascii_case(it))
}

/// Characters that an id keeps, and blanks.
fn is_kept(c: char) -> bool {
    c.is_ascii_graphic() || c == ' '
}

/// The id of the page of a file: its path in the folder that was named, without the ending. Putting the folder again
/// replaces the page.
///
/// Blanks become `-`. So do characters that no id has, and a digest then keeps two such names two ids.
fn id_of(stem: &str) -> String {
    let mut id = String::with_capacity(stem.len());
    for c in stem.chars() {
        match c.is_ascii_graphic() {
            true => id.push(c),
            false if id.ends_with('-') => {}
            false => id.push('-'),
        }
    }
    if stem.chars().all(is_kept) && id.len() <= MAX_ID {
        return id;
    }
    let digest = hex(&digest(&[stem.as_bytes()])[..4]);
    // All of it is ASCII, so that a byte is a character.
    id.truncate(MAX_ID - 1 - digest.len());
    match id.trim_matches('-') {
        "" => digest,
        id => format!("{id}-{digest}"),
    }
}

/// Refuses files that would be one page.
///
/// # Errors
/// Two files have one id.
pub(super) fn check_ids(found: &[Found]) -> Result<(), CliError> {
    let mut by_id: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for file in found {
        by_id.entry(&file.id).or_default().push(&file.path);
    }
    let Some((id, paths)) = by_id.into_iter().find(|(_, paths)| paths.len() > 1) else {
        return Ok(());
    };
    let more = paths.len().saturating_sub(SHOWN);
    let shown = paths.iter().take(SHOWN);
    let mut shown: Vec<String> = shown.map(|path| path.display().to_string()).collect();
    shown.extend((more > 0).then(|| format!("and {more} more")));
    let count = paths.len();
    let message = format!("{count} files would be the page {id}: {}", shown.join(", "));
    Err(CliError::usage(message).hint("rename one of them, or put it alone with --id"))
}

/// Reads files. Nothing is stored unless all of them can be pages.
///
/// # Errors
/// All faults of all files; too much text.
pub(super) fn read(found: Vec<Found>) -> Result<Vec<Source>, CliError> {
    let (mut sources, mut faults, mut bytes) = (Vec::new(), Vec::new(), 0);
    let count = found.len();
    for file in found {
        match read_one(file) {
            Ok(source) => {
                bytes += source.text.len();
                sources.push(source);
            }
            Err(error) => faults.push(error),
        }
        if bytes > MOST_BYTES {
            let message = format!(
                "the files have more than {MOST_BYTES} bytes, which is the most that all pages have"
            );
            return Err(CliError::usage(message));
        }
    }
    match faults.is_empty() {
        true => Ok(sources),
        false => Err(faulty(&faults, count)),
    }
}

fn read_one(file: Found) -> Result<Source, AgentError> {
    let Found {
        path,
        id,
        is_coined,
    } = file;
    let shown = path.display().to_string();
    let bytes = bytes(&path, MAX_PAGE_FILE)?;
    let PageFile { title, text, tags } = page::parse(&shown, decode(&shown, &bytes)?)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match is_page_line(&name, MAX_PAGE_TITLE) {
        true => name.into_owned(),
        false => id.clone(),
    };
    Ok(Source {
        path: Some(shown),
        id: Some(id),
        is_coined,
        title: title.unwrap_or(name),
        text,
        tags,
    })
}

/// Takes the text of standard input as a page.
///
/// # Errors
/// All its faults; a page without a title.
pub(super) fn read_input(bytes: &[u8], title: Option<&str>) -> Result<Source, CliError> {
    const NAME: &str = "standard input";
    let parsed = decode(NAME, bytes).and_then(|text| page::parse(NAME, text));
    let page = parsed.map_err(|error| faulty(&[error], 1))?;
    let title = title.map(str::to_owned).or(page.title);
    let title = title.ok_or_else(|| {
        let message = "the text of standard input has no title";
        CliError::usage(message).hint("name one with --title, or begin with a heading: # Title")
    })?;
    Ok(Source {
        path: None,
        id: None,
        is_coined: true,
        title,
        text: page.text,
        tags: page.tags,
    })
}

/// What is wrong with files, of which there are so many.
fn faulty(errors: &[AgentError], count: usize) -> CliError {
    if let ([one], 1) = (errors, count) {
        return CliError::usage(one.to_string());
    }
    let verb = if errors.len() == 1 { "has" } else { "have" };
    let files = counted(count, "file");
    let mut lines = vec![format!(
        "{} of {files} {verb} faults, so nothing is stored",
        errors.len()
    )];
    let of_file = |error: &AgentError| {
        let line = |fault: &Fault| format!("  {}", fault.to_line(&error.path));
        error.faults.iter().map(line).collect::<Vec<_>>()
    };
    let all: Vec<String> = errors.iter().flat_map(of_file).collect();
    let more = all.len().saturating_sub(SHOWN);
    lines.extend(all.into_iter().take(SHOWN));
    lines.extend((more > 0).then(|| format!("  and {}", counted(more, "more fault"))));
    CliError::usage(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "# Title\n").unwrap();
        }
        folder
    }

    fn ids(found: &[Found]) -> Vec<&str> {
        found.iter().map(|file| file.id.as_str()).collect()
    }

    #[test]
    fn a_folder_has_its_text_files_and_those_of_folders_in_it() {
        let names = [
            "b.md",
            "a.TXT",
            "deep/er/my notes.markdown",
            "deep/v1.2.md",
            ".hidden.md",
            ".git/c.md",
            "code.rs",
        ];
        let folder = folder(&names);
        let found = find(&[folder.path().to_owned()]).unwrap();
        assert_eq!(ids(&found), ["a", "b", "deep/er/my-notes", "deep/v1.2"]);
        // A file that is named is taken whatever its name.
        let found = find(&[folder.path().join("code.rs")]).unwrap();
        assert_eq!(ids(&found), ["code"]);
        let empty = tempfile::tempdir().unwrap();
        let error = find(&[empty.path().to_owned()]).unwrap_err();
        let said = "is a folder without pages: files whose names end in .markdown, .md, .txt";
        assert!(error.message.ends_with(said), "{error}");
    }

    #[test]
    fn links_of_a_folder_are_left_out_and_one_that_is_named_is_followed() {
        use std::os::unix::fs::symlink;
        let (folder, secrets) = (folder(&["a.md"]), folder(&["keys.md"]));
        let (file, link) = (secrets.path().join("keys.md"), folder.path().join("b.md"));
        symlink(&file, &link).unwrap();
        symlink(secrets.path(), folder.path().join("deep")).unwrap();
        symlink(folder.path().join("a.md"), folder.path().join("c.md")).unwrap();
        let found = find(&[folder.path().to_owned()]).unwrap();
        assert_eq!(ids(&found), ["a"]);
        let found = find(&[link, folder.path().join("deep")]).unwrap();
        assert_eq!(ids(&found), ["b", "keys"]);
        assert_eq!(read(found).unwrap().len(), 2);
    }

    #[test]
    fn every_name_becomes_an_id_and_different_ones_stay_different() {
        let found = |name: &str| Found::new(PathBuf::from(name), Path::new(name));
        let id = |name: &str| found(name).id;
        assert_eq!(id("my  release notes.md"), "my-release-notes");
        assert_eq!(id("a/b.md"), "a/b");
        let long = "x".repeat(400) + ".md";
        let names = [
            "数据库.md",
            "日志.md",
            "café.md",
            "cafè.md",
            "caf.md",
            &long,
        ];
        let ids: BTreeSet<String> = names.iter().map(|name| id(name)).collect();
        assert_eq!(ids.len(), names.len(), "{ids:?}");
        for id in &ids {
            assert!((1..=MAX_ID).contains(&id.len()), "{id}");
            assert!(id.chars().all(|c| c.is_ascii_graphic()), "{id}");
        }
        assert!(id("café.md").starts_with("caf-"), "{ids:?}");
        assert!(found("café.md").is_coined && !found("my notes.md").is_coined);
    }

    #[test]
    fn two_files_of_one_id_are_named() {
        let folder = folder(&["a.md", "a.txt", "b.md"]);
        let found = find(&[folder.path().to_owned()]).unwrap();
        let error = check_ids(&found).unwrap_err();
        let place = folder.path().display();
        let expected = format!("2 files would be the page a: {place}/a.md, {place}/a.txt");
        assert_eq!(error.message, expected);
        assert_eq!(check_ids(&found[1..]), Ok(()));
    }

    #[test]
    fn all_faults_of_all_files_are_told_and_a_name_is_the_last_title() {
        let folder = folder(&["a.md", "b.md", "c.md"]);
        fs::write(folder.path().join("a.md"), "Only text.\n").unwrap();
        let found = || find(&[folder.path().to_owned()]).unwrap();
        let sources = read(found()).unwrap();
        let titles: Vec<&str> = sources.iter().map(|it| it.title.as_str()).collect();
        assert_eq!(titles, ["a", "Title", "Title"]);
        fs::write(folder.path().join("b.md"), "").unwrap();
        fs::write(folder.path().join("c.md"), "---\ntitle: [a]\n---\nC").unwrap();
        let error = read(found()).unwrap_err().message;
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[0], "2 of 3 files have faults, so nothing is stored");
        assert!(lines[1].contains("b.md: has no text"), "{error}");
        assert!(lines[2].contains("c.md:2: title is a list"), "{error}");
    }

    #[test]
    fn standard_input_needs_a_title() {
        let page = read_input(b"# Tape\n\nIt is here.\n", None).unwrap();
        assert_eq!((page.title.as_str(), page.id), ("Tape", None));
        let page = read_input(b"It is here.", Some("Tape")).unwrap();
        assert_eq!(page.title, "Tape");
        let error = read_input(b"It is here.", None).unwrap_err();
        assert!(error.hint.contains("--title"), "{error}");
        assert!(read_input(b"\xff", None).is_err());
    }
}
