//! Prompt files as they were read. Whether they count is decided elsewhere, about these same contents.

use crate::settings::servers;
use cairn_agents::document::MAX_FILE;
use cairn_agents::is_name;
use cairn_boot::{ConfigFault, Origin};
use cairn_engine::key::{digest, hex};
use cairn_engine::text::without_bom;
use cairn_model::PromptTemplate;
use cairn_model::prompt::is_built_in;
use cairn_rpc::text::escape;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The end of the names of files.
const ENDING: &str = ".md";
/// Most files of a folder.
const MOST_FILES: usize = 100;

/// Whether links are followed. In a folder of others, a link could lead to a file that was never
/// meant as a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::settings) enum Links {
    Follow,
    Refuse,
}

/// The prompt files of a folder.
#[derive(Debug, Clone, Default)]
pub(in crate::settings) struct PromptFiles {
    folder: PathBuf,
    is_there: bool,
    files: Vec<PromptFile>,
    /// The names of files without text. They count as absent: a shell empties a file before the command starts whose
    /// output goes there, such as `cairn prompt show`.
    blank: Vec<String>,
    /// Why the folder cannot be read.
    problem: Option<String>,
}

#[derive(Debug, Clone)]
struct PromptFile {
    /// The name of the prompt.
    name: String,
    /// The text, or why there is none.
    content: Result<String, String>,
}

impl PromptFile {
    fn is_blank(&self) -> bool {
        self.content
            .as_ref()
            .is_ok_and(|text| text.trim().is_empty())
    }
}

impl PromptFiles {
    /// Reads a folder, which need not be there.
    pub(in crate::settings) fn read(folder: &Path, links: Links) -> Self {
        let mut found = Self {
            folder: folder.to_owned(),
            ..Self::default()
        };
        let known = match links {
            Links::Follow => folder.metadata(),
            Links::Refuse => folder.symlink_metadata(),
        };
        found.is_there = known.is_ok_and(|known| known.is_dir());
        if found.is_there {
            match names(folder) {
                Ok(names) => {
                    let files = names.into_iter().map(|name| file(folder, name, links));
                    let (blank, files): (Vec<_>, Vec<_>) = files.partition(PromptFile::is_blank);
                    found.blank = blank.into_iter().map(|file| file.name).collect();
                    found.files = files;
                }
                Err(problem) => found.problem = Some(problem),
            }
        }
        found
    }

    /// Whether the folder is there.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether it has nothing to say.
    pub(in crate::settings) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.problem.is_none()
    }

    /// The digest of a settings file that comes with these prompts. Without any, it is that of the file.
    pub(in crate::settings) fn digest_with(&self, settings: &str) -> String {
        let mut parts = vec![settings.as_bytes()];
        for PromptFile { name, content } in &self.files {
            let (Ok(content) | Err(content)) = content;
            parts.extend([name.as_bytes(), content.as_bytes()]);
        }
        parts.extend(self.problem.as_deref().map(str::as_bytes));
        hex(&digest(&parts))
    }

    /// One line for each file, for the person who is asked to confirm it. Names are the folder's, and escaped.
    pub(in crate::settings) fn effects(&self) -> Vec<String> {
        let lines = self.files.iter().map(|PromptFile { name, content }| {
            let path = self.path(name);
            let path = escape(&path);
            let what = match content {
                Ok(text) => format!("{} bytes", text.len()),
                Err(problem) => problem.clone(),
            };
            let what = escape(&what);
            let name = escape(name);
            match is_built_in(&name) {
                true => format!("replace the prompt {name} by {path} ({what})"),
                false => format!("add the prompt {name} from {path} ({what})"),
            }
        });
        let problem = self.problem.iter();
        let folder = self.folder.display().to_string();
        let problem = problem.map(|problem| format!("use prompts of {folder}, which {problem}"));
        let problem = problem.map(|line| escape(&line).into_owned());
        lines.chain(problem).collect()
    }

    /// The texts.
    pub(super) fn templates(&self) -> Vec<PromptTemplate> {
        let files = self.files.iter();
        let texts = files.filter_map(|file| Some((&file.name, file.content.as_ref().ok()?)));
        let templates = texts.map(|(name, text)| PromptTemplate::new(name, text));
        templates.collect()
    }

    /// What is wrong with the folder, and with files in the place of a built-in prompt that cannot be read.
    pub(super) fn faults(&self) -> Vec<ConfigFault> {
        let fault = |source, problem: &String| ConfigFault {
            path: String::new(),
            source,
            problem: problem.clone(),
            allowed: String::new(),
        };
        let folder = || Origin::File {
            name: self.folder.display().to_string().into(),
            line: 0,
        };
        let of_folder = self.problem.iter().map(|it| fault(folder(), it));
        let used = self.files.iter().filter(|file| is_built_in(&file.name));
        let of_files = used.filter_map(|file| {
            let problem = file.content.as_ref().err()?;
            Some(fault(self.origin(&file.name, 0), problem))
        });
        of_folder.chain(of_files).collect()
    }

    /// What is wrong with other files and which have no text, a line each.
    pub(super) fn problems(&self) -> Vec<String> {
        let others = self.files.iter().filter(|file| !is_built_in(&file.name));
        let problems = others.filter_map(|PromptFile { name, content }| {
            let problem = match content {
                Ok(text) => PromptTemplate::new(name, text).check().err()?.to_string(),
                Err(problem) => problem.clone(),
            };
            Some(format!("{}: {problem}", self.path(name)))
        });
        let blank = self
            .blank
            .iter()
            .map(|name| format!("{}: has no text, so it does not count", self.path(name)));
        problems.chain(blank).collect()
    }

    /// A line of the file of a prompt; 0 for all of it.
    pub(super) fn origin(&self, name: &str, line: usize) -> Origin {
        Origin::File {
            name: self.path(name).into(),
            line,
        }
    }

    fn path(&self, name: &str) -> String {
        let path = self.folder.join(format!("{name}{ENDING}"));
        path.display().to_string()
    }
}

/// The names of the prompts of a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(ENDING));
        names.extend(name.filter(|it| !it.starts_with('.')).map(str::to_owned));
        if names.len() > MOST_FILES {
            return Err(format!(
                "has too many files (allowed: at most {MOST_FILES} whose names end with {ENDING})"
            ));
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn file(folder: &Path, name: String, links: Links) -> PromptFile {
    let path = folder.join(format!("{name}{ENDING}"));
    let content = content(&path, &name, links);
    PromptFile { name, content }
}

fn content(path: &Path, name: &str, links: Links) -> Result<String, String> {
    if !is_name(name) {
        return Err(
            "is no name of a prompt (allowed: 1 to 64 letters, digits, '.', '_' and '-', of which the first is \
             a letter or a digit)"
                .to_owned(),
        );
    }
    let is_link = path.symlink_metadata().is_ok_and(|it| it.is_symlink());
    if is_link && links == Links::Refuse {
        return Err(
            "is a link (allowed: a file, unless the settings file is named with --config)"
                .to_owned(),
        );
    }
    let text = servers::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let text = text.ok_or_else(|| "cannot be read: it is gone".to_owned())?;
    match text.len() {
        ..=MAX_FILE => Ok(without_bom(&text).to_owned()),
        bytes => Err(format!("has {bytes} bytes (allowed: at most {MAX_FILE})")),
    }
}
