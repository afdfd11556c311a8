//! The files of a skill's folder.

use super::cache::Cache;
use super::folder::{Sort, Unfit, descend, join, names, odd_name, parent, read_digest, sort};
use super::limits::{DEPTH, Room};
use cairn_agents::skill::SKILL_FILE;
use cairn_engine::key::{digest, hex};
use cap_std::fs::Dir;

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// From the skill's folder.
    pub(crate) path: String,
    pub(super) size: u64,
    /// Of its content; empty until it was read.
    pub(super) digest: String,
}

/// All files below a skill's folder, sorted. None of them is read.
///
/// # Errors
/// Something there is neither file nor folder, which a person could not confirm: where a link leads may change.
pub(super) fn members(folder: &Dir, room: &mut Room) -> Result<Vec<Member>, Unfit> {
    let mut members = Vec::new();
    collect(folder, "", 0, room, &mut members)?;
    Ok(members)
}

fn collect(
    dir: &Dir,
    below: &str,
    depth: usize,
    room: &mut Room,
    members: &mut Vec<Member>,
) -> Result<(), Unfit> {
    if depth > DEPTH {
        let problem = format!("has folders more than {DEPTH} levels down");
        return Err(Unfit::new(problem, format!("at most {DEPTH} levels")));
    }
    let (names, odd) = names(dir, room)?;
    if let Some(name) = odd.first() {
        return Err(odd_name().within(name));
    }
    for name in names {
        let path = join(below, &name)?;
        match sort(dir, &name).map_err(|unfit| unfit.within(&path))? {
            None => {}
            Some(Sort::File(size)) => members.push(Member {
                path,
                size,
                digest: String::new(),
            }),
            Some(Sort::Folder) => {
                if let Some(dir) = descend(dir, [name.as_str()])? {
                    collect(&dir, &path, depth + 1, room, members)?;
                }
            }
            Some(sort @ (Sort::Link | Sort::Other)) => {
                sort.file().map_err(|unfit| unfit.within(&path))?;
            }
        }
    }
    Ok(())
}

/// Reads the digests of the files.
///
/// # Errors
/// One of them cannot be read, or is another one already; and a `SKILL.md` that is no text.
pub(super) fn read(folder: &Dir, members: &mut [Member], cache: &mut Cache) -> Result<(), Unfit> {
    for member in members {
        let (folders, name) = parent(&member.path);
        let Some(dir) = descend(folder, folders)? else {
            return Err(Unfit::new("changes while it is read", "a folder at rest").within(name));
        };
        let read = read_digest(&dir, name, member.size, cache);
        let read = read.map_err(|unfit| unfit.within(&member.path))?;
        if let Some(fault) = read.fault.filter(|_| member.path == SKILL_FILE) {
            return Err(Unfit::from(fault).within(SKILL_FILE));
        }
        member.digest = read.digest;
    }
    Ok(())
}

/// Covers path and content of each file.
pub(super) fn digest_of(members: &[Member]) -> String {
    let mut parts = vec![b"cairn.workspace.skill".as_slice(), b"1".as_slice()];
    for member in members {
        parts.extend([member.path.as_bytes(), member.digest.as_bytes()]);
    }
    hex(&digest(&parts))
}
