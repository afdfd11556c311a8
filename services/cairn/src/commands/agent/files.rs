//! Agent files: found in folders, and read.

use crate::commands::text_file::{bytes, fault, unreadable};
use cairn_agents::agent::{self, AgentFile};
use cairn_agents::document::{MAX_FILE, decode};
use cairn_agents::{AgentError, Parsed};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// An agent file that can be used.
#[derive(Debug)]
pub(super) struct Usable {
    pub(super) source: String,
    pub(super) parsed: Parsed<AgentFile>,
}

/// The agent files of a path: itself, or those of a folder by their names. Folders within it do not count.
///
/// # Errors
/// A folder that cannot be read, or has no agent file.
pub(super) fn of_path(path: &Path) -> Result<Vec<PathBuf>, AgentError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let files = of_folder(path).map_err(|error| unreadable(path, &error))?;
    match files.is_empty() {
        true => Err(fault(
            path,
            "is a folder without agent files",
            "files whose names end in .md",
        )),
        false => Ok(files),
    }
}

fn of_folder(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if is_agent_file(&path) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Hidden files are left out: those of editors are among them.
fn is_agent_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.') && name.to_ascii_lowercase().ends_with(".md")
}

/// Reads an agent file. The agent has the given name, whatever the file says; without one, the file names it.
///
/// # Errors
/// A file that cannot be read, and all faults of one that can.
pub(super) fn read(path: &Path, name: Option<&str>) -> Result<Usable, AgentError> {
    let shown = path.display().to_string();
    let bytes = bytes(path, MAX_FILE)?;
    let source = decode(&shown, &bytes)?;
    let parsed = agent::parse(name.unwrap_or(&shown), source);
    let mut parsed = parsed.map_err(|error| AgentError {
        path: shown,
        ..error
    })?;
    if let Some(name) = name {
        name.clone_into(&mut parsed.value.name);
    }
    Ok(Usable {
        source: source.to_owned(),
        parsed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[PathBuf]) -> Vec<String> {
        let names = paths.iter().filter_map(|path| path.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_folder_has_its_own_files_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.md", "a.agent.MD", ".hidden.md", "note.txt"] {
            fs::write(folder.path().join(name), "P").unwrap();
        }
        let within = folder.path().join("within.md");
        fs::create_dir(&within).unwrap();
        fs::write(within.join("c.md"), "P").unwrap();
        let found = of_path(folder.path()).unwrap();
        assert_eq!(names(&found), ["a.agent.MD", "b.md"]);
        let file = folder.path().join("note.txt");
        assert_eq!(of_path(&file).unwrap(), [file]);
        fs::remove_file(within.join("c.md")).unwrap();
        let error = of_path(&within).unwrap_err().to_string();
        let wanted = "is a folder without agent files (allowed: files whose names end in .md)";
        assert_eq!(error, format!("{}: {wanted}", within.display()));
    }

    #[test]
    fn a_name_that_is_given_counts_and_faults_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my agent.md");
        fs::write(&path, "P").unwrap();
        assert!(read(&path, None).is_err());
        let usable = read(&path, Some("a.md")).unwrap();
        assert_eq!(usable.parsed.value.name, "a.md");
        assert_eq!(usable.source, "P");
        fs::write(&path, "---\nhidden: 1\n---\nP").unwrap();
        let error = read(&path, Some("a")).unwrap_err().to_string();
        let wanted = format!("{}:2: hidden is 1 (allowed: true or false)", path.display());
        assert_eq!(error, wanted);
    }

    #[test]
    fn a_file_that_is_too_large_or_not_there_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        let error = read(&path, None).unwrap_err().to_string();
        assert!(error.contains("a.md: cannot be read: "), "{error}");
        fs::write(&path, "a".repeat(MAX_FILE)).unwrap();
        assert!(read(&path, None).is_ok());
        fs::write(&path, "a".repeat(MAX_FILE + 1)).unwrap();
        let error = read(&path, None).unwrap_err().to_string();
        let wanted = "a.md: is too large (allowed: at most 65536 bytes)";
        assert!(error.ends_with(wanted), "{error}");
        fs::write(&path, [b'a', b'\n', 0xff]).unwrap();
        let error = read(&path, None).unwrap_err().to_string();
        assert!(error.contains("a.md:2: is no text in UTF-8"), "{error}");
    }
}
