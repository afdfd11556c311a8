//! What was read of a workspace, and what a person confirmed.

use super::FilesError;
use super::cache::Cache;
use super::folder::{descend, parent, read_content};
use super::limits::SKILL_TEXT;
use super::paths::is_inside;
use super::scan::{Found, Scan};
use crate::allowances::Allowances;
use cairn_agents::skill::SKILL_FILE;
use cairn_rpc::{Clock as _, SystemClock};
use cap_std::fs::Dir;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// How often files are read that are others each time.
const TRIES: usize = 3;
/// Most digests of skills that are remembered.
const SKILLS: usize = 10_000;

/// Where files are looked for, from the workspace.
#[derive(Debug)]
pub(super) struct Places {
    /// Folders of agents.
    pub(super) agents: Vec<String>,
    /// Folders of the folders of skills.
    pub(super) skills: Vec<String>,
}

/// The files of a workspace at one moment.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Covers all files; empty without any.
    pub(crate) digest: String,
    pub(crate) is_confirmed: bool,
    /// The caller has this digest.
    pub(crate) is_unchanged: bool,
    pub(crate) files: Vec<Found>,
    /// Of the files in their order, if they are confirmed and not unchanged; otherwise empty.
    pub(crate) contents: Vec<Vec<u8>>,
    /// Files that do not count: one line each.
    pub(crate) problems: Vec<String>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillText {
    /// Its beginning.
    pub(crate) content: Vec<u8>,
    /// Bytes of the whole.
    pub(crate) size: u64,
}

/// A workspace, and what this process knows of its files.
#[derive(Debug)]
pub(super) struct State {
    workspace: Dir,
    /// Its path, absolute and without links.
    folder: PathBuf,
    /// None if no file counts.
    places: Option<Places>,
    allowances: Allowances,
    cache: Cache,
    /// Digests of skills that were confirmed once: a run that began with one may still read it when another
    /// file has changed.
    confirmed: BTreeSet<String>,
}

impl State {
    pub(super) fn new(
        workspace: Dir,
        folder: PathBuf,
        places: Option<Places>,
        allowances: Allowances,
    ) -> Self {
        Self {
            workspace,
            folder,
            places,
            allowances,
            cache: Cache::default(),
            confirmed: BTreeSet::new(),
        }
    }

    /// The digest of all files as they are now; empty without any.
    pub(super) fn digest(&mut self) -> String {
        self.scan().digest
    }

    /// The files as they are now. May block.
    ///
    /// # Errors
    /// [`FilesError::Busy`] and [`FilesError::NotKnown`].
    pub(super) fn read(&mut self, known: &str) -> Result<Reading, FilesError> {
        for _ in 0..TRIES {
            let mut scan = self.scan();
            let is_confirmed = self.is_confirmed(&mut scan)?;
            let is_unchanged = is_confirmed && scan.digest == known;
            let contents = match is_confirmed && !is_unchanged {
                true => scan.contents(&self.workspace),
                false => Some(Vec::new()),
            };
            let Some(contents) = contents else {
                self.cache.clear();
                continue;
            };
            return Ok(Reading {
                digest: scan.digest,
                is_confirmed,
                is_unchanged,
                files: scan.files,
                contents,
                problems: scan.problems,
            });
        }
        Err(FilesError::Busy)
    }

    /// A file of a skill as it was confirmed. May block.
    ///
    /// # Errors
    /// Those of [`FilesError`] about skills.
    pub(super) fn skill_file(
        &mut self,
        skill: &str,
        file: &str,
        digest: &str,
    ) -> Result<SkillText, FilesError> {
        let file = match file.is_empty() {
            true => SKILL_FILE,
            false => file,
        };
        if !is_inside(file) {
            return Err(FilesError::Path(
                "leads out of the folder of the skill, or has control characters",
            ));
        }
        let mut scan = self.scan();
        let known = scan.skills().filter_map(Found::skill_name);
        let known: Vec<String> = known.map(str::to_owned).collect();
        let Some(found) = scan.skill(skill).cloned() else {
            let skill = skill.to_owned();
            return Err(FilesError::NoSkill { skill, known });
        };
        let changed = || FilesError::SkillChanged(skill.to_owned());
        if found.digest != digest {
            return Err(changed());
        }
        if !self.confirmed.contains(digest) && !self.is_confirmed(&mut scan)? {
            return Err(changed());
        }
        let Some((size, digest)) = found.member(file) else {
            return Err(FilesError::NoSkillFile {
                skill: skill.to_owned(),
                file: file.to_owned(),
                known: found.member_paths(),
            });
        };
        let path = found.member_path(file);
        let (folders, name) = parent(&path);
        let dir = descend(&self.workspace, folders).ok().flatten();
        let content = dir.and_then(|dir| read_content(&dir, name, size, digest));
        let mut content = content.ok_or_else(changed)?;
        content.truncate(end_of(&content));
        Ok(SkillText { content, size })
    }

    fn scan(&mut self) -> Scan {
        let Some(places) = &self.places else {
            return Scan::default();
        };
        self.cache.begin(SystemClock.unix_ms());
        Scan::of(&self.workspace, places, &mut self.cache)
    }

    /// Whether a person confirmed these files. Why that cannot be said is one of their problems.
    ///
    /// # Errors
    /// [`FilesError::NotKnown`].
    fn is_confirmed(&mut self, scan: &mut Scan) -> Result<bool, FilesError> {
        if scan.files.is_empty() {
            return Ok(false);
        }
        let keep = self.allowances.keep();
        if let Some(why) = keep.unknown() {
            return Err(FilesError::NotKnown(why));
        }
        let is_confirmed = match keep.is_workspace_confirmed(&self.folder, &scan.digest) {
            Ok(is_confirmed) => is_confirmed,
            Err(why) => {
                let problem =
                    format!("no file counts, as their confirmation cannot be read: {why}");
                scan.problems.push(problem);
                false
            }
        };
        if is_confirmed {
            if self.confirmed.len() > SKILLS {
                self.confirmed.clear();
            }
            let skills = scan.skills().map(|found| found.digest.clone());
            self.confirmed.extend(skills);
        }
        Ok(is_confirmed)
    }
}

impl Found {
    /// Size and digest of a file of a skill's folder.
    fn member(&self, file: &str) -> Option<(u64, &str)> {
        if file == SKILL_FILE {
            return Some((self.size, &self.content));
        }
        let member = self.others.iter().find(|member| member.path == file)?;
        Some((member.size, &member.digest))
    }

    fn member_paths(&self) -> Vec<String> {
        let others = self.others.iter().map(|member| member.path.clone());
        [SKILL_FILE.to_owned()].into_iter().chain(others).collect()
    }

    /// The path of a file of a skill's folder, from the workspace.
    fn member_path(&self, file: &str) -> String {
        let folder = self.path.strip_suffix(SKILL_FILE).unwrap_or_default();
        format!("{folder}{file}")
    }
}

/// Where the content that is handed out ends: at most [`SKILL_TEXT`] bytes, and not within a character.
fn end_of(content: &[u8]) -> usize {
    let is_inner = |at: usize| content.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let most = SKILL_TEXT.min(content.len());
    let first = most.saturating_sub(3);
    (first..=most)
        .rev()
        .find(|at| !is_inner(*at))
        .unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_ends_between_two_characters() {
        let text = |before: usize| {
            let text = "a".repeat(before) + "é€🦀" + &"b".repeat(SKILL_TEXT);
            text.into_bytes()
        };
        assert_eq!(end_of(b"short"), 5);
        assert_eq!(end_of(b""), 0);
        for before in SKILL_TEXT - 9..=SKILL_TEXT {
            let text = text(before);
            let cut = &text[..end_of(&text)];
            assert!(cut.len() <= SKILL_TEXT && cut.len() > SKILL_TEXT - 4);
            std::str::from_utf8(cut).unwrap();
        }
        assert_eq!(end_of(&vec![0x80; SKILL_TEXT * 2]), SKILL_TEXT);
    }
}
