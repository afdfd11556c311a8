//! What a hostile repository tries with files for agents, and what is read of them.

use crate::escapes::SECRET;
use crate::support::World;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{
    ConfirmWorkspaceFilesRequest, ReadSkillFileRequest, ReadSkillFileResponse,
    ReadWorkspaceFilesRequest, ReadWorkspaceFilesResponse, WorkspaceFileKind,
};
use cairn_rpc::{Exposure, Link, RpcError, ServerBuilder};
use cairn_tools::Tools;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

/// The files of one workspace over a local link.
pub(crate) struct Files(ToolsServiceClient<Link>);

impl Files {
    pub(crate) async fn of(tools: &Tools) -> Self {
        let builder = tools.register(ServerBuilder::new(Exposure::Internal));
        Self(ToolsServiceClient::new(
            builder.build().await.unwrap().link(),
        ))
    }

    pub(crate) async fn read(&self, known: &str) -> Result<ReadWorkspaceFilesResponse, RpcError> {
        let known_digest = known.to_owned();
        let request = ReadWorkspaceFilesRequest { known_digest };
        let read = self.0.clone().read_workspace_files(request).await;
        Ok(read?.into_inner())
    }

    pub(crate) async fn now(&self) -> ReadWorkspaceFilesResponse {
        self.read("").await.unwrap()
    }

    pub(crate) async fn confirm(&self, digest: &str) -> Result<String, RpcError> {
        let digest = digest.to_owned();
        let request = ConfirmWorkspaceFilesRequest { digest };
        let confirmed = self.0.clone().confirm_workspace_files(request).await;
        Ok(confirmed?.into_inner().digest)
    }

    /// Confirms the files as they are.
    pub(crate) async fn confirm_all(&self) -> String {
        let digest = self.now().await.digest;
        self.confirm(&digest).await.unwrap()
    }

    pub(crate) async fn skill_file(
        &self,
        skill: &str,
        file: &str,
        digest: &str,
    ) -> Result<ReadSkillFileResponse, RpcError> {
        let request = ReadSkillFileRequest {
            skill: skill.to_owned(),
            file: file.to_owned(),
            digest: digest.to_owned(),
        };
        let read = self.0.clone().read_skill_file(request).await;
        Ok(read?.into_inner())
    }
}

pub(crate) fn paths(read: &ReadWorkspaceFilesResponse) -> Vec<&str> {
    read.files.iter().map(|file| file.path.as_str()).collect()
}

fn link(world: &World, target: &str, at: &str) {
    let at = world.path(at);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    symlink(target, at).unwrap();
}

fn pipe(world: &World, at: &str) {
    let at = world.path(at);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
}

/// A file of so many bytes that are all 0.
fn large(world: &World, at: &str, bytes: u64) {
    world.put(at, "");
    File::create(world.path(at))
        .unwrap()
        .set_len(bytes)
        .unwrap();
}

fn skill(world: &World, folder: &str) {
    world.put(&format!("{folder}/SKILL.md"), SKILL);
}

const SKILL: &str = "---\nname: pdf\ndescription: Reads PDF\n---\nRun scripts/run.sh.\n";
const MIB: u64 = 1 << 20;

/// One attempt: what there is, the files that count, and how the lines about others begin.
struct Attempt {
    name: &'static str,
    make: fn(&World),
    counts: &'static [&'static str],
    problems: &'static [&'static str],
}

const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "nothing",
        make: |_| {},
        counts: &[],
        problems: &[],
    },
    Attempt {
        name: "every kind of file",
        make: |world| {
            world.put("AGENTS.md", "Use tabs.");
            world.put("CLAUDE.md", "Use blanks.");
            world.put(".github/agents/test.agent.md", "T");
            world.put(".claude/agents/reviewer.md", "R");
            world.put(".cairn/agents/default.md", "D");
            skill(world, ".agents/skills/pdf");
            world.put(".agents/skills/pdf/scripts/run.sh", "echo");
        },
        counts: &[
            "AGENTS.md",
            ".cairn/agents/default.md",
            ".claude/agents/reviewer.md",
            ".github/agents/test.agent.md",
            ".agents/skills/pdf/SKILL.md",
        ],
        problems: &[],
    },
    Attempt {
        name: "files that define nothing",
        make: |world| {
            world.put(".cairn/agents/.hidden.md", "H");
            world.put(".cairn/agents/note.txt", "N");
            world.put(".cairn/agents/folder.md/a.md", "A");
            world.put(".cairn/skills/note.md", "N");
            world.put(".cairn/skills/empty/readme.md", "N");
            world.put("sub/AGENTS.md", "S");
        },
        counts: &[],
        problems: &[],
    },
    Attempt {
        name: "an agent that is a link out of the workspace",
        make: |world| link(world, "../../../secret.txt", ".cairn/agents/a.md"),
        counts: &[],
        problems: &[".cairn/agents/a.md: is a link, and links are not followed (allowed: a file)"],
    },
    Attempt {
        name: "an agent that is a link within the workspace",
        make: |world| {
            world.put("a.md", "A");
            link(world, "../../a.md", ".cairn/agents/a.md");
        },
        counts: &[],
        problems: &[".cairn/agents/a.md: is a link"],
    },
    Attempt {
        name: "an agent that is a link to nothing",
        make: |world| link(world, "gone", ".cairn/agents/a.md"),
        counts: &[],
        problems: &[".cairn/agents/a.md: is a link"],
    },
    Attempt {
        name: "a folder of agents that is a link",
        make: |world| link(world, "../../secret", ".claude/agents"),
        counts: &[],
        problems: &[
            ".claude/agents: leads through 'agents', which is a link, and links are not followed \
             (allowed: a folder)",
        ],
    },
    Attempt {
        name: "a folder above that is a link",
        make: |world| link(world, "../secret", ".claude"),
        counts: &[],
        problems: &[
            ".claude/agents: leads through '.claude', which is a link",
            ".claude/skills: leads through '.claude', which is a link",
        ],
    },
    Attempt {
        name: "a file where a folder of agents should be",
        make: |world| world.put(".cairn/agents", "A"),
        counts: &[],
        problems: &[
            ".cairn/agents: leads through 'agents', which is no folder (allowed: a folder)",
        ],
    },
    Attempt {
        name: "instructions that are a link",
        make: |world| {
            link(world, "../secret.txt", "AGENTS.md");
            world.put("CLAUDE.md", "Use blanks.");
        },
        counts: &["CLAUDE.md"],
        problems: &["AGENTS.md: is a link, and links are not followed (allowed: a file)"],
    },
    Attempt {
        name: "instructions that are a folder",
        make: |world| world.put("AGENTS.md/x", "X"),
        counts: &[],
        problems: &["AGENTS.md: is a folder (allowed: a file)"],
    },
    Attempt {
        name: "instructions that are a pipe",
        make: |world| pipe(world, "AGENTS.md"),
        counts: &[],
        problems: &["AGENTS.md: is no regular file (allowed: a file)"],
    },
    Attempt {
        name: "an agent that is a socket",
        make: |world| {
            world.put(".cairn/agents/a.md", "A");
            fs::remove_file(world.path(".cairn/agents/a.md")).unwrap();
            // Its file stays when it is closed.
            drop(UnixListener::bind(world.path(".cairn/agents/a.md")).unwrap());
        },
        counts: &[],
        problems: &[".cairn/agents/a.md: is no regular file (allowed: a file)"],
    },
    Attempt {
        name: "an agent of 10 MiB",
        make: |world| large(world, ".cairn/agents/a.md", 10 * MIB),
        counts: &[],
        problems: &[".cairn/agents/a.md: has 10485760 bytes (allowed: at most 65536)"],
    },
    Attempt {
        name: "instructions of 10 MiB, which others do not replace",
        make: |world| {
            large(world, "AGENTS.md", 10 * MIB);
            world.put("CLAUDE.md", "Use blanks.");
        },
        counts: &[],
        problems: &["AGENTS.md: has 10485760 bytes (allowed: at most 1048576)"],
    },
    Attempt {
        name: "names that change how a screen looks",
        make: |world| {
            world.put(".cairn/agents/a\u{1b}[2J.md", "A");
            world.put(".cairn/agents/b\u{202e}dm.md", "B");
            let name = Path::new(OsStr::from_bytes(b".cairn/agents/c\xff.md"));
            fs::write(world.path("").join(name), "C").unwrap();
        },
        counts: &[],
        problems: &[
            ".cairn/agents/a\\u{1b}[2J.md: has a name that cannot be shown (allowed: a name in UTF-8 without \
             control characters)",
            ".cairn/agents/b\\u{202e}dm.md: has a name that cannot be shown",
            ".cairn/agents/c\u{fffd}.md: has a name that cannot be shown",
        ],
    },
    Attempt {
        name: "an agent that is no text",
        make: |world| world.put(".cairn/agents/a.md", b"a\n\xff"),
        counts: &[],
        problems: &[".cairn/agents/a.md:2: is no text in UTF-8 (allowed: a text in UTF-8)"],
    },
    Attempt {
        name: "a skill that is a link",
        make: |world| link(world, "../../../secret", ".agents/skills/pdf"),
        counts: &[],
        problems: &[
            ".agents/skills/pdf: is a link, and links are not followed (allowed: a folder)",
        ],
    },
    Attempt {
        name: "a SKILL.md that is a link",
        make: |world| {
            link(
                world,
                "../../../../secret.txt",
                ".agents/skills/pdf/SKILL.md",
            )
        },
        counts: &[],
        problems: &[
            ".agents/skills/pdf: has \"SKILL.md\", which is a link, and links are not followed (allowed: a \
             file)",
        ],
    },
    Attempt {
        name: "a skill with a link in it",
        make: |world| {
            skill(world, ".agents/skills/pdf");
            link(world, "/etc", ".agents/skills/pdf/scripts/etc");
        },
        counts: &[],
        problems: &[
            ".agents/skills/pdf: has \"scripts/etc\", which is a link, and links are not followed (allowed: \
             a file)",
        ],
    },
    Attempt {
        name: "a skill with a pipe in it",
        make: |world| {
            skill(world, ".agents/skills/pdf");
            pipe(world, ".agents/skills/pdf/pipe");
        },
        counts: &[],
        problems: &[".agents/skills/pdf: has \"pipe\", which is no regular file (allowed: a file)"],
    },
    Attempt {
        name: "a skill with a file that cannot be shown",
        make: |world| {
            skill(world, ".agents/skills/pdf");
            world.put(".agents/skills/pdf/a\nb", "X");
        },
        counts: &[],
        problems: &[".agents/skills/pdf: has \"a\\nb\", which has a name that cannot be shown"],
    },
    Attempt {
        name: "a skill of a name that none may have",
        make: |world| {
            skill(world, ".agents/skills/a b");
            skill(world, ".agents/skills/tex");
        },
        counts: &[".agents/skills/tex/SKILL.md"],
        problems: &[
            ".agents/skills/a b: has a name that no skill may have (allowed: a folder of 1 to 64 letters",
        ],
    },
    Attempt {
        name: "a SKILL.md of 10 MiB",
        make: |world| large(world, ".agents/skills/pdf/SKILL.md", 10 * MIB),
        counts: &[],
        problems: &[
            ".agents/skills/pdf: has \"SKILL.md\", which has 10485760 bytes (allowed: at most 262144)",
        ],
    },
    Attempt {
        name: "skills that are too large together",
        make: |world| {
            skill(world, ".agents/skills/a");
            large(world, ".agents/skills/a/data", 10 * MIB);
            skill(world, ".agents/skills/b");
            large(world, ".agents/skills/b/data", 10 * MIB);
            skill(world, ".agents/skills/c");
            large(world, ".agents/skills/c/data", 1 << 40);
        },
        counts: &[".agents/skills/a/SKILL.md"],
        problems: &[
            ".agents/skills/b: has 104858",
            ".agents/skills/c: has 10995116",
        ],
    },
    Attempt {
        name: "a skill of very many folders",
        make: |world| {
            skill(world, ".agents/skills/deep");
            let deep = format!(".agents/skills/deep/{}x", "a/".repeat(20));
            world.put(&deep, "X");
        },
        counts: &[],
        problems: &[
            ".agents/skills/deep: has folders more than 16 levels down (allowed: at most 16 levels)",
        ],
    },
];

/// Nothing of a response may be of a file that does not count, and no content before it was confirmed.
fn check_bare(name: &str, read: &ReadWorkspaceFilesResponse) {
    assert!(!read.confirmed && !read.unchanged, "{name}");
    assert!(
        read.files.iter().all(|it| it.content.is_empty()),
        "{name}: a content before it was confirmed"
    );
    assert!(!format!("{read:?}").contains(SECRET), "{name}");
}

#[tokio::test]
async fn what_a_hostile_repository_tries_is_not_read_or_only_once_it_is_confirmed() {
    for Attempt {
        name,
        make,
        counts,
        problems,
    } in ATTEMPTS
    {
        let world = World::new();
        fs::create_dir(world.folder.path().join("secret")).unwrap();
        for secret in ["secret.txt", "secret/a.md", "secret/SKILL.md"] {
            fs::write(world.folder.path().join(secret), SECRET).unwrap();
        }
        make(&world);
        let files = Files::of(&world.tools).await;
        let read = files.now().await;
        check_bare(name, &read);
        assert_eq!(paths(&read), *counts, "{name}: {:?}", read.problems);
        assert_eq!(read.problems.len(), problems.len(), "{:?}", read.problems);
        for (problem, beginning) in read.problems.iter().zip(*problems) {
            assert!(problem.starts_with(beginning), "{name}: {problem}");
        }
        if counts.is_empty() {
            assert_eq!(read.digest, "", "{name}");
            let refused = files.confirm("00").await.unwrap_err();
            assert_eq!(refused.reason_name(), "NO_WORKSPACE_FILES", "{name}");
            continue;
        }
        files.confirm(&read.digest).await.unwrap();
        let confirmed = files.now().await;
        assert!(confirmed.confirmed, "{name}");
        assert_eq!(confirmed.digest, read.digest, "{name}");
        for file in &confirmed.files {
            let content = fs::read(world.path(&file.path)).unwrap();
            assert_eq!(file.content, content, "{name}: {}", file.path);
        }
        assert!(!format!("{confirmed:?}").contains(SECRET), "{name}");
    }
}

#[tokio::test]
async fn of_too_many_files_the_first_count() {
    let world = World::new();
    for at in 0..=1000 {
        world.put(&format!(".cairn/agents/a{at:04}.md"), "A");
    }
    for at in 0..200 {
        link(&world, "gone", &format!(".claude/agents/b{at:03}.md"));
    }
    let files = Files::of(&world.tools).await;
    let read = files.now().await;
    assert_eq!(read.files.len(), 1000);
    assert_eq!(read.files[999].path, ".cairn/agents/a0999.md");
    assert_eq!(
        read.problems[0],
        ".cairn/agents/a1000.md: is one file too many (allowed: 1000 files in all, those of skills included)"
    );
    assert_eq!(read.problems.len(), 100);
    assert_eq!(read.problems[99], "and 102 more files that do not count");
}

#[tokio::test]
async fn a_folder_of_very_many_entries_does_not_count() {
    let world = World::new();
    world.put(".cairn/agents/a.md", "A");
    for at in 0..20_000 {
        File::create(world.path(&format!(".cairn/agents/{at}"))).unwrap();
    }
    let read = Files::of(&world.tools).await.now().await;
    assert!(read.files.is_empty());
    assert_eq!(
        read.problems,
        [
            ".cairn/agents: has too many entries (allowed: 20000 entries of all folders of agents and skills)"
        ]
    );
}

#[tokio::test]
async fn a_file_has_its_kind_and_a_skill_the_names_of_its_other_files() {
    let world = World::new();
    world.put("CLAUDE.md", "Use blanks.");
    world.put(".cairn/agents/a.md", "A");
    skill(&world, ".claude/skills/pdf");
    world.put(".claude/skills/pdf/scripts/run.sh", "echo");
    world.put(".claude/skills/pdf/data.bin", b"\xff\0");
    let read = Files::of(&world.tools).await.now().await;
    let kinds: Vec<_> = read.files.iter().map(|file| file.kind()).collect();
    assert_eq!(
        kinds,
        [
            WorkspaceFileKind::Instructions,
            WorkspaceFileKind::Agent,
            WorkspaceFileKind::Skill
        ]
    );
    assert_eq!(read.files[1].size, 1);
    assert_eq!(read.files[2].others, ["data.bin", "scripts/run.sh"]);
}

#[tokio::test]
async fn without_files_for_agents_none_is_looked_at() {
    let world = World::with(|config, _| config.agents_enabled = false);
    world.put("AGENTS.md", "Use tabs.");
    let files = Files::of(&world.tools).await;
    let read = files.now().await;
    assert_eq!(read, ReadWorkspaceFilesResponse::default());
    let refused = files.confirm("00").await.unwrap_err();
    assert_eq!(refused.reason_name(), "NO_WORKSPACE_FILES");
}

#[tokio::test]
async fn the_settings_say_where_agents_and_skills_are() {
    let world = World::with(|config, _| {
        config.agent_paths = vec!["team/agents".to_owned()];
        config.skill_paths = Vec::new();
    });
    world.put("team/agents/a.md", "A");
    world.put(".cairn/agents/b.md", "B");
    skill(&world, ".agents/skills/pdf");
    let read = Files::of(&world.tools).await.now().await;
    assert_eq!(paths(&read), ["team/agents/a.md"]);
}
