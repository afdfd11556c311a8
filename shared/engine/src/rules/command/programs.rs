//! Programs that run another one, or code, that their words name.

/// Programs behind which no approval of further commands stands. The reason is the comment of the row.
struct Row {
    /// Their names, in lower case and without a version.
    programs: &'static [&'static str],
    /// When it is so.
    with: With,
}

/// When a program runs another one.
enum With {
    /// Whatever its words are.
    Anything,
    /// With one of these.
    Words {
        /// Options of one letter, also among others behind one dash, and with a value behind them.
        letters: &'static str,
        /// Longer options, behind one dash or two: programs differ. A value may follow behind `=`. Behind two
        /// dashes, an option may be cut short.
        options: &'static [&'static str],
        /// Words, such as sub-commands, wherever they stand.
        words: &'static [&'static str],
        /// Beginnings of words, wherever they stand. `=` is for each assignment.
        begins: &'static [&'static str],
    },
}

/// Programs without a second plain word cover nothing: the word says what they do.
const NEED_SECOND: &[&str] = &[
    "git",
    "hg",
    "svn",
    "jj",
    "cargo",
    "rustup",
    "go",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "deno",
    "pip",
    "uv",
    "poetry",
    "pdm",
    "hatch",
    "pipenv",
    "conda",
    "python",
    "pypy",
    "node",
    "nodejs",
    "ruby",
    "perl",
    "php",
    "lua",
    "luajit",
    "java",
    "dotnet",
    "mix",
    "bundle",
    "bundler",
    "gem",
    "rake",
    "rails",
    "composer",
    "mvn",
    "gradle",
    "gradlew",
    "brew",
    "terraform",
    "rscript",
    "julia",
    "elixir",
    "swift",
    "zig",
    "just",
    "task",
];

const ROWS: &[Row] = &[
    // Runs the program that follows with other rights or in another place.
    Row {
        programs: &[
            "sudo",
            "sudoedit",
            "doas",
            "su",
            "runuser",
            "run0",
            "pkexec",
            "setpriv",
            "capsh",
            "chroot",
            "unshare",
            "nsenter",
            "setarch",
            "linux",
            "runcon",
            "newgrp",
            "sg",
            "gosu",
            "su-exec",
            "fakeroot",
            "proot",
            "bwrap",
            "firejail",
            "systemd-run",
            "machinectl",
            "setuidgid",
            "chpst",
        ],
        with: With::Anything,
    },
    // Runs the program that follows.
    Row {
        programs: &[
            "env",
            "nice",
            "ionice",
            "chrt",
            "taskset",
            "numactl",
            "nohup",
            "setsid",
            "time",
            "timeout",
            "stdbuf",
            "unbuffer",
            "script",
            "watch",
            "xargs",
            "parallel",
            "entr",
            "flock",
            "prlimit",
            "choom",
            "strace",
            "ltrace",
            "gdb",
            "lldb",
            "rr",
            "valgrind",
            "perf",
            "hyperfine",
            "faketime",
            "xvfb-run",
            "dbus-run-session",
            "dbus-launch",
            "ssh-agent",
            "tini",
            "dumb-init",
            "daemonize",
            "start-stop-daemon",
            "catchsegv",
            "direnv",
            "dotenv",
            "dotenvx",
            "cross-env",
            "concurrently",
            "nodemon",
            "watchexec",
            "cronic",
            "chronic",
            "run-one",
            "torify",
            "torsocks",
            "proxychains",
            "sem",
            "caffeinate",
            "arch",
            "ld.so",
            "ld-linux",
            "ld-musl",
            "qemu",
            "wine",
            "nix",
            "nix-shell",
            "guix",
            "op",
            "doppler",
        ],
        with: With::Anything,
    },
    // Is a shell, which runs any command.
    Row {
        programs: &[
            "sh",
            "bash",
            "rbash",
            "zsh",
            "dash",
            "fish",
            "ksh",
            "mksh",
            "oksh",
            "pdksh",
            "ash",
            "csh",
            "tcsh",
            "yash",
            "rc",
            "es",
            "osh",
            "ysh",
            "ion",
            "nu",
            "elvish",
            "xonsh",
            "pwsh",
            "powershell",
            "cmd",
            "busybox",
            "toybox",
            "wsl",
        ],
        with: With::Anything,
    },
    // Is a part of the shell, which may evaluate its words or change how words are read.
    Row {
        programs: &[
            ".",
            "source",
            "eval",
            "exec",
            "command",
            "builtin",
            "trap",
            "alias",
            "let",
            "test",
            "printf",
            "read",
            "unset",
            "declare",
            "typeset",
            "local",
            "export",
            "readonly",
            "wait",
            "mapfile",
            "readarray",
            "getopts",
            "shift",
            "return",
            "break",
            "continue",
            "exit",
            "set",
            "ulimit",
            "umask",
            "hash",
            "type",
            "fc",
            "bind",
            "enable",
            "shopt",
            "complete",
            "compgen",
            "compopt",
            "jobs",
            "fg",
            "bg",
            "disown",
            "pushd",
            "popd",
            "dirs",
            "cd",
        ],
        with: With::Anything,
    },
    // Runs programs on other machines, and programs here by its options.
    Row {
        programs: &[
            "ssh", "scp", "sftp", "rsync", "mosh", "rsh", "telnet", "nc", "ncat", "socat",
        ],
        with: With::Anything,
    },
    // Runs programs in other places, with the rights of a service.
    Row {
        programs: &[
            "docker",
            "podman",
            "nerdctl",
            "buildah",
            "kubectl",
            "oc",
            "helm",
            "lxc",
            "incus",
            "vagrant",
            "distrobox",
            "toolbox",
            "flatpak",
            "snap",
            "ansible",
            "ansible-playbook",
        ],
        with: With::Anything,
    },
    // Runs programs later, elsewhere or by a script.
    Row {
        programs: &[
            "at",
            "batch",
            "crontab",
            "systemctl",
            "launchctl",
            "service",
            "tmux",
            "screen",
            "zellij",
            "expect",
            "xdg-open",
            "open",
            "gio",
            "osascript",
            "tclsh",
            "wish",
        ],
        with: With::Anything,
    },
    // Is an editor or a pager with commands that run programs.
    Row {
        programs: &[
            "vi",
            "vim",
            "nvim",
            "view",
            "ex",
            "ed",
            "emacs",
            "emacsclient",
            "nano",
            "less",
            "more",
            "man",
            "code",
        ],
        with: With::Anything,
    },
    // Runs code that its words hold, and that code can run programs.
    Row {
        programs: &[
            "awk", "gawk", "mawk", "nawk", "sed", "gsed", "m", "dc", "sqlite", "psql", "mysql",
            "mariadb", "gnuplot", "octave", "r", "ghci", "irb", "pry", "iex", "erl", "jshell",
            "groovy", "scala", "clojure", "clj", "bb", "guile", "racket", "sbcl", "ocaml",
            "runghc", "ts-node", "tsx", "ipython", "bpython",
        ],
        with: With::Anything,
    },
    // Fetches or finds a program by its name, and runs it.
    Row {
        programs: &[
            "npx", "pnpx", "bunx", "uvx", "pipx", "dlx", "tox", "nox", "rye",
        ],
        with: With::Anything,
    },
    // Has options that name a program to run.
    Row {
        programs: &[
            "tar", "gtar", "bsdtar", "zip", "cpio", "apt", "apt-get", "aptitude", "dpkg", "rpm",
            "yum", "dnf", "apk", "pacman", "zypper", "install", "split", "latexmk", "pdflatex",
            "xelatex", "lualatex", "tex", "latex", "wget", "rustc", "rustdoc", "gpg",
        ],
        with: With::Anything,
    },
    // Runs a program for each file, deletes files, or writes one.
    Row {
        programs: &["find", "gfind"],
        with: With::Words {
            letters: "",
            options: &[],
            words: &[],
            begins: &["-exec", "-ok", "-delete", "-fprint", "-fls"],
        },
    },
    // Runs a program for each file.
    Row {
        programs: &["fd", "fdfind"],
        with: With::Words {
            letters: "xX",
            options: &["exec", "exec-batch"],
            words: &[],
            begins: &[],
        },
    },
    // Has an option that names a program to run.
    Row {
        programs: &["rg", "sort", "ctags"],
        with: With::Words {
            letters: "",
            options: &["pre", "hostname-bin", "compress-program", "options"],
            words: &[],
            begins: &[],
        },
    },
    // Takes settings, hooks and programs from its words, which it runs.
    Row {
        programs: &["git"],
        with: With::Words {
            letters: "cxO",
            options: &[
                "config-env",
                "exec-path",
                "upload-pack",
                "receive-pack",
                "exec",
                "template",
                "ext-diff",
                "textconv",
                "open-files-in-pager",
                "extcmd",
                "tool",
                "config",
                "sendmail-cmd",
                "smtp-server",
                "to-cmd",
                "cc-cmd",
                "paginate",
                "editor",
                "man",
                "web",
            ],
            words: &[
                "bisect",
                "submodule",
                "filter-branch",
                "filter-repo",
                "difftool",
                "mergetool",
                "config",
                "hook",
                "rebase",
                "send-email",
                "instaweb",
                "daemon",
                "help",
                "credential",
                "shell",
                "worktree",
                "clone",
                "ls-remote",
                "fetch-pack",
                "send-pack",
                "archive",
                "maintenance",
                "for-each-repo",
                "imap-send",
                "p4",
                "svn",
                "remote-ext",
            ],
            begins: &["ext::", "alias."],
        },
    },
    // Takes settings and programs from its words, which it runs.
    Row {
        programs: &["hg", "svn", "jj"],
        with: With::Words {
            letters: "",
            options: &[
                "config",
                "config-option",
                "config-toml",
                "config-file",
                "tool",
                "diff-cmd",
                "editor-cmd",
                "ssh",
            ],
            words: &["config", "extdiff", "bisect", "fix", "run", "util"],
            begins: &[],
        },
    },
    // Takes settings from its words that name a program to run.
    Row {
        programs: &["cargo"],
        with: With::Words {
            letters: "Z",
            options: &["config"],
            words: &["rustc", "rustdoc", "watch", "miri", "with", "script"],
            begins: &["+"],
        },
    },
    // Runs the program that follows.
    Row {
        programs: &["rustup"],
        with: With::Words {
            letters: "",
            options: &[],
            words: &["run"],
            begins: &[],
        },
    },
    // Has options that name a program to run.
    Row {
        programs: &["go"],
        with: With::Words {
            letters: "",
            options: &[
                "exec",
                "toolexec",
                "vettool",
                "ldflags",
                "gccgoflags",
                "gcflags",
                "asmflags",
                "overlay",
                "compiler",
                "fixtool",
            ],
            words: &["tool", "env", "generate", "bug", "run"],
            begins: &[],
        },
    },
    // Runs any program of a package, or code.
    Row {
        programs: &["npm", "pnpm", "yarn", "bun", "deno", "corepack"],
        with: With::Words {
            letters: "cep",
            options: &[
                "call",
                "script-shell",
                "shell",
                "shell-mode",
                "node-options",
                "git",
                "viewer",
                "editor",
                "eval",
                "print",
                "preload",
                "require",
            ],
            words: &[
                "exec", "x", "dlx", "node", "explore", "edit", "config", "c", "set", "init",
                "create", "innit", "eval", "repl", "sh", "bash", "env", "xargs", "sudo", "shell",
            ],
            begins: &[],
        },
    },
    // Runs the file that follows.
    Row {
        programs: &["deno", "bun"],
        with: With::Words {
            letters: "",
            options: &[],
            words: &["run"],
            begins: &[],
        },
    },
    // Runs the program that follows in an environment.
    Row {
        programs: &[
            "uv",
            "poetry",
            "pdm",
            "hatch",
            "pipenv",
            "conda",
            "mamba",
            "micromamba",
            "bundle",
            "bundler",
            "rbenv",
            "pyenv",
            "nodenv",
            "asdf",
            "mise",
            "rtx",
            "volta",
            "fnm",
            "nvm",
            "rvm",
            "composer",
            "dotnet",
            "gem",
            "brew",
            "pip",
        ],
        with: With::Words {
            letters: "",
            options: &[
                "exec",
                "python",
                "config-settings",
                "global-option",
                "install-option",
                "build-option",
            ],
            words: &[
                "run",
                "run-script",
                "exec",
                "x",
                "tool",
                "shell",
                "env",
                "sh",
                "open",
                "console",
                "script",
                "fsi",
                "do",
                "each",
            ],
            begins: &[],
        },
    },
    // Reads rules or settings from its words, such as the shell to run.
    Row {
        programs: &["make", "gmake", "bmake", "ninja", "just", "task"],
        with: With::Words {
            letters: "E",
            options: &["eval", "shell", "shell-arg", "command", "set"],
            words: &[],
            begins: &["="],
        },
    },
    // Runs code that its words hold.
    Row {
        programs: &["python", "pypy"],
        with: With::Words {
            letters: "c",
            options: &[],
            words: &["-"],
            begins: &[],
        },
    },
    // Runs code or modules that its words hold.
    Row {
        programs: &["node", "nodejs"],
        with: With::Words {
            letters: "epr",
            options: &[
                "eval",
                "print",
                "require",
                "import",
                "loader",
                "experimental-loader",
                "env-file",
                "run",
                "snapshot-blob",
                "experimental-config-file",
            ],
            words: &["-", "inspect"],
            begins: &["--test-reporter", "--test-global-setup"],
        },
    },
    // Runs code or modules that its words hold.
    Row {
        programs: &[
            "perl", "ruby", "php", "lua", "luajit", "rscript", "julia", "elixir",
        ],
        with: With::Words {
            letters: "eEMmrlnpdDBRL",
            options: &["eval", "print", "run", "require", "load"],
            words: &["-"],
            begins: &[],
        },
    },
    // Runs code that its words hold.
    Row {
        programs: &["mix", "rake", "rails", "swift", "zig"],
        with: With::Words {
            letters: "eEpr",
            options: &[
                "eval",
                "execute",
                "execute-print",
                "execute-continue",
                "require",
            ],
            words: &[
                "run",
                "eval",
                "cmd",
                "do",
                "runner",
                "r",
                "console",
                "repl",
                "dbconsole",
                "db",
            ],
            begins: &[],
        },
    },
    // Has options that name a program to run.
    Row {
        programs: &["java"],
        with: With::Words {
            letters: "",
            options: &["javaagent", "agentlib", "agentpath"],
            words: &[],
            begins: &["-XX:On", "@", "-X"],
        },
    },
    // Takes settings and tasks from its words that name a program to run.
    Row {
        programs: &["mvn", "mvnw", "gradle", "gradlew", "ant", "sbt", "lein"],
        with: With::Words {
            letters: "DIPcb",
            options: &[
                "init-script",
                "system-prop",
                "project-prop",
                "build-file",
                "define",
                "exec",
            ],
            words: &["run", "shell", "repl"],
            begins: &["exec:", "org.", "antrun:"],
        },
    },
    // Has options that name a program or a plug-in to run.
    Row {
        programs: &[
            "gcc", "g++", "cc", "c++", "cpp", "clang", "clang++", "ld", "as",
        ],
        with: With::Words {
            letters: "B",
            options: &["wrapper", "specs", "plugin", "fplugin", "dynamic-linker"],
            words: &[],
            begins: &["@", "-Wl", "-Xclang", "-fuse-ld"],
        },
    },
    // Reads further options from a file.
    Row {
        programs: &["curl"],
        with: With::Words {
            letters: "K",
            options: &["config"],
            words: &[],
            begins: &[],
        },
    },
];

/// The name of a program without its folder, its version and the case of its letters: some systems take `Sudo`
/// for `sudo`.
pub(super) fn base(program: &str) -> String {
    let name = whole_name(program);
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    match base.is_empty() {
        true => name,
        false => base.to_owned(),
    }
}

fn whole_name(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    match name.strip_suffix(".exe") {
        Some(name) => name.to_owned(),
        None => name,
    }
}

/// The program is known by this name: as it is, without a version, or as a loader with the name of a machine.
fn is_named(program: &str, known: &str) -> bool {
    let whole = whole_name(program);
    let is_loader = known.starts_with("ld-") || known == "qemu";
    whole == known
        || base(program) == known
        || (is_loader
            && whole
                .strip_prefix(known)
                .is_some_and(|rest| rest.starts_with(['-', '.'])))
}

/// A prefix of this program alone would cover all that it can do.
pub(super) fn needs_second_word(program: &str) -> bool {
    NEED_SECOND.iter().any(|known| is_named(program, known))
}

/// The command runs a program, or code, that its words name.
pub(super) fn runs_another(words: &[String]) -> bool {
    let Some((program, rest)) = words.split_first() else {
        return true;
    };
    let is_of = |row: &&Row| row.programs.iter().any(|known| is_named(program, known));
    let mut rows = ROWS.iter().filter(is_of);
    rows.any(|row| rest.iter().any(|word| row.with.is_met_by(word)) || row.with.is_always())
}

impl With {
    fn is_always(&self) -> bool {
        matches!(self, Self::Anything)
    }

    fn is_met_by(&self, word: &str) -> bool {
        let Self::Words {
            letters,
            options,
            words,
            begins,
        } = self
        else {
            return true;
        };
        let has_letter = |cluster: &str| cluster.contains(|c: char| letters.contains(c));
        let is_cluster = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
        let name = word.split('=').next().unwrap_or_default();
        let is_option = |option: &&str| match (name.strip_prefix("--"), name.strip_prefix('-')) {
            (Some(name), _) => !name.is_empty() && option.starts_with(name),
            (None, Some(name)) => *option == name,
            (None, None) => false,
        };
        let begins_so = |begin: &&str| match *begin {
            // An assignment.
            "=" => !word.starts_with('-') && word.contains('='),
            begin => word.starts_with(begin),
        };
        is_cluster.is_some_and(has_letter)
            || options.iter().any(is_option)
            || words.contains(&word)
            || begins.iter().any(begins_so)
    }
}
