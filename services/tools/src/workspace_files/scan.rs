//! All files at one moment.

use super::cache::Cache;
use super::folder::{
    Sort, Unfit, descend, join, link, names, odd_name, parent, read_content, read_digest, sort,
};
use super::limits::{self, Room};
use super::skill::{self, Member};
use super::state::Places;
use cairn_agents::instructions::INSTRUCTION_FILES;
use cairn_agents::is_name;
use cairn_agents::skill::SKILL_FILE;
use cairn_engine::key::{digest, hex};
use cap_std::fs::Dir;

/// The ending of the names of agents' files.
const AGENT_ENDING: &str = ".md";

/// What a file defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Agent,
    Skill,
    Instructions,
}

impl Kind {
    /// As the digest has it.
    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Skill => "skill",
            Self::Instructions => "instructions",
        }
    }

    /// Most bytes of such a file.
    fn most(self) -> u64 {
        match self {
            Self::Agent => limits::AGENT,
            Self::Skill => limits::SKILL,
            Self::Instructions => limits::INSTRUCTIONS,
        }
    }

    /// # Errors
    /// A file of so many bytes is too large.
    fn check(self, size: u64) -> Result<(), Unfit> {
        match size <= self.most() {
            true => Ok(()),
            false => Err(Unfit::new(
                format!("has {size} bytes"),
                format!("at most {}", self.most()),
            )),
        }
    }
}

/// A file that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// From the workspace.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// Of its content; of a skill, of all files of its folder.
    pub(crate) digest: String,
    /// Of its content.
    pub(super) content: String,
    /// Of a skill: the other files of its folder.
    pub(crate) others: Vec<Member>,
}

/// All files that count, and those that do not.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Where two define one name, the first counts.
    pub(super) files: Vec<Found>,
    /// One line for each file that does not count.
    pub(super) problems: Vec<String>,
    /// Of all files; empty without any.
    pub(super) digest: String,
}

impl Scan {
    /// Looks at all files.
    pub(super) fn of(workspace: &Dir, places: &Places, cache: &mut Cache) -> Self {
        let mut scanner = Scanner {
            workspace,
            cache,
            room: Room::default(),
            files: Vec::new(),
            problems: Vec::new(),
            further: 0,
        };
        scanner.instructions();
        for path in &places.agents {
            scanner.agents(path);
        }
        for path in &places.skills {
            scanner.skills(path);
        }
        scanner.finish()
    }

    /// The skill of that name.
    pub(super) fn skill(&self, name: &str) -> Option<&Found> {
        let mut skills = self.skills();
        skills.find(|found| found.skill_name() == Some(name))
    }

    /// All skills.
    pub(super) fn skills(&self) -> impl Iterator<Item = &Found> {
        self.files.iter().filter(|found| found.kind == Kind::Skill)
    }

    /// The contents of the files, in their order. None if one of them has changed.
    pub(super) fn contents(&self, workspace: &Dir) -> Option<Vec<Vec<u8>>> {
        let content = |found: &Found| {
            let (folders, name) = parent(&found.path);
            let dir = descend(workspace, folders).ok()??;
            read_content(&dir, name, found.size, &found.content)
        };
        self.files.iter().map(content).collect()
    }
}

impl Found {
    /// The name of a skill, which is that of its folder.
    pub(super) fn skill_name(&self) -> Option<&str> {
        self.path.rsplit('/').nth(1)
    }
}

struct Scanner<'a> {
    workspace: &'a Dir,
    cache: &'a mut Cache,
    room: Room,
    files: Vec<Found>,
    problems: Vec<String>,
    /// Problems that there is no line for.
    further: usize,
}

impl<'a> Scanner<'a> {
    fn problem(&mut self, path: &str, unfit: &Unfit) {
        match self.problems.len() < limits::PROBLEMS - 1 {
            true => self.problems.push(unfit.to_line(path)),
            false => self.further += 1,
        }
    }

    /// The first file of instructions counts. Something else of its name does not hide the next one.
    fn instructions(&mut self) {
        let workspace = self.workspace;
        for name in INSTRUCTION_FILES {
            let (sort, is_last) = match sort(workspace, name) {
                Ok(None) => continue,
                Ok(Some(sort)) => (Ok(sort), matches!(sort, Sort::File(_))),
                Err(unfit) => (Err(unfit), false),
            };
            let found = sort.and_then(|sort| {
                self.file(workspace, name, name.to_owned(), (Kind::Instructions, sort))
            });
            match found {
                Ok(found) => self.files.push(found),
                Err(unfit) => self.problem(name, &unfit),
            }
            if is_last {
                return;
            }
        }
    }

    fn agents(&mut self, path: &str) {
        let Some((dir, names)) = self.folder(path, is_agent_file) else {
            return;
        };
        for name in names {
            if let Err(unfit) = self.agent(&dir, path, &name) {
                self.problem(&format!("{path}/{name}"), &unfit);
            }
        }
    }

    fn agent(&mut self, dir: &Dir, folder: &str, name: &str) -> Result<(), Unfit> {
        let path = join(folder, name)?;
        match sort(dir, name)? {
            None | Some(Sort::Folder) => {}
            Some(sort) => {
                let found = self.file(dir, name, path, (Kind::Agent, sort))?;
                self.files.push(found);
            }
        }
        Ok(())
    }

    fn skills(&mut self, path: &str) {
        let Some((dir, names)) = self.folder(path, |name| !name.starts_with('.')) else {
            return;
        };
        for name in names {
            if let Err(unfit) = self.skill(&dir, path, &name) {
                self.problem(&format!("{path}/{name}"), &unfit);
            }
        }
    }

    fn skill(&mut self, dir: &Dir, path: &str, name: &str) -> Result<(), Unfit> {
        const ALLOWED: &str = "a folder of 1 to 64 letters, digits, '.', '_' and '-', of which the first is \
            a letter or a digit";
        match sort(dir, name)? {
            Some(Sort::Folder) => {}
            Some(Sort::Link) => return Err(link("a folder")),
            _ => return Ok(()),
        }
        let Some(folder) = descend(dir, [name])? else {
            return Ok(());
        };
        let Some(main) = sort(&folder, SKILL_FILE)? else {
            return Ok(());
        };
        let of_main = |unfit: Unfit| unfit.within(SKILL_FILE);
        let size = main.file().map_err(of_main)?;
        Kind::Skill.check(size).map_err(of_main)?;
        if !is_name(name) {
            return Err(Unfit::new("has a name that no skill may have", ALLOWED));
        }
        let mut members = skill::members(&folder, &mut self.room)?;
        let sizes = members.iter().map(|member| member.size);
        // A file may have holes, and so any size.
        let bytes = sizes.fold(0, u64::saturating_add);
        self.room.take(members.len(), bytes, size)?;
        skill::read(&folder, &mut members, self.cache)?;
        let digest = skill::digest_of(&members);
        let at = members.iter().position(|it| it.path == SKILL_FILE);
        let Some(main) = at.map(|at| members.remove(at)) else {
            return Ok(());
        };
        self.files.push(Found {
            path: join(path, &format!("{name}/{SKILL_FILE}"))?,
            kind: Kind::Skill,
            size: main.size,
            digest,
            content: main.digest,
            others: members,
        });
        Ok(())
    }

    /// A file that is no skill, at this path.
    fn file(
        &mut self,
        dir: &Dir,
        name: &str,
        path: String,
        (kind, sort): (Kind, Sort),
    ) -> Result<Found, Unfit> {
        let size = sort.file()?;
        kind.check(size)?;
        self.room.take(1, size, size)?;
        let read = read_digest(dir, name, size, self.cache)?;
        if let Some(fault) = read.fault {
            return Err(fault.into());
        }
        Ok(Found {
            path,
            kind,
            size,
            digest: read.digest.clone(),
            content: read.digest,
            others: Vec::new(),
        })
    }

    /// The folder at this path, if it is there, and those of its names that are `wanted`.
    fn folder(&mut self, path: &str, wanted: fn(&str) -> bool) -> Option<(Dir, Vec<String>)> {
        let dir = match descend(self.workspace, path.split('/')) {
            Ok(dir) => dir?,
            Err(unfit) => {
                self.problem(path, &unfit);
                return None;
            }
        };
        let (mut plain, odd) = match names(&dir, &mut self.room) {
            Ok(names) => names,
            Err(unfit) => {
                self.problem(path, &unfit);
                return None;
            }
        };
        for name in odd.iter().filter(|name| wanted(name)) {
            self.problem(&format!("{path}/{name}"), &odd_name());
        }
        plain.retain(|name| wanted(name));
        Some((dir, plain))
    }

    fn finish(self) -> Scan {
        let mut problems = self.problems;
        if self.further > 0 {
            problems.push(format!("and {} more files that do not count", self.further));
        }
        Scan {
            digest: digest_of(&self.files),
            files: self.files,
            problems,
        }
    }
}

/// Hidden files are left out: those of editors are among them.
fn is_agent_file(name: &str) -> bool {
    !name.starts_with('.') && name.to_ascii_lowercase().ends_with(AGENT_ENDING)
}

/// Covers path, kind and content of each file.
fn digest_of(files: &[Found]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let mut parts = vec![b"cairn.workspace".as_slice(), b"1".as_slice()];
    for found in files {
        let of_file: [&str; 3] = [found.kind.name(), &found.path, &found.digest];
        parts.extend(of_file.map(str::as_bytes));
    }
    hex(&digest(&parts))
}
