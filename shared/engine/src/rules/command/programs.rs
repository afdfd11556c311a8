//! Programs that run another one, or code, that their words name, and programs that destroy.

/// Programs behind which no approval of further commands stands. The reason is the comment of the row.
struct Row {
    /// Their names, between blanks: in lower case and without a version.
    programs: &'static str,
    /// The words with which it is so. None: with any.
    with: Option<With>,
}

/// Words with which a program runs another one. Those of one kind stand between blanks.
struct With {
    /// Options of one letter, also among others behind one dash, and with a value behind them.
    letters: &'static str,
    /// Longer options, behind one dash or two: programs differ. A value may follow behind `=`. Behind two dashes, an
    /// option may be cut short.
    options: &'static str,
    /// Words, such as sub-commands, wherever they stand.
    words: &'static str,
    /// Beginnings of words, wherever they stand. `=` is for each assignment.
    begins: &'static str,
}

/// For the fields that a row leaves out.
const NOTHING: With = With {
    letters: "",
    options: "",
    words: "",
    begins: "",
};

/// Programs without a second plain word cover nothing: the word says what they do.
const NEED_SECOND: &str = "git hg svn jj cargo rustup go npm pnpm yarn bun deno pip uv poetry pdm hatch pipenv conda python \
    pypy node nodejs ruby perl php lua luajit java dotnet mix bundle bundler gem rake rails composer mvn \
    gradle gradlew mvnw brew terraform rscript julia elixir swift zig just task bazel bazelisk buck stack cabal \
    opam dune";

const ROWS: &[Row] = &[
    // Runs the program that follows with other rights or in another place.
    Row {
        programs: "sudo sudoedit doas su runuser run0 pkexec setpriv capsh chroot unshare nsenter setarch linux32 linux64 \
                   runcon newgrp sg gosu su-exec fakeroot proot bwrap firejail systemd-run machinectl setuidgid \
                   chpst",
        with: None,
    },
    // Runs the program that follows.
    Row {
        programs: "env nice ionice chrt taskset numactl nohup setsid time timeout stdbuf unbuffer script watch \
                   xargs parallel entr flock prlimit choom strace ltrace gdb lldb rr valgrind perf hyperfine \
                   faketime xvfb-run dbus-run-session dbus-launch ssh-agent tini dumb-init daemonize \
                   start-stop-daemon catchsegv direnv dotenv dotenvx cross-env concurrently nodemon watchexec \
                   cronic chronic run-one torify torsocks proxychains sem caffeinate arch ld.so ld-linux \
                   ld-musl qemu wine nix nix-shell guix op doppler ifne pee mispipe lckdo rlwrap ccache sccache \
                   distcc icecc bear scan-build intercept-build kcov eatmydata fakechroot cpulimit cgexec \
                   softlimit envdir setlock systemd-inhibit systemd-nspawn systemd-cat nsjail minijail dtach \
                   abduco xterm cargo-watch bacon ptw pytest-watch",
        with: None,
    },
    // Destroys what its words name: each command is looked at.
    Row {
        programs: "rm rmdir unlink shred truncate dd mv chmod chown chgrp chattr kill pkill killall skill mkfs wipefs \
                   fdisk parted shutdown reboot halt poweroff",
        with: None,
    },
    // Is a shell, which runs any command.
    Row {
        programs: "sh bash rbash zsh dash fish ksh mksh oksh pdksh ash csh tcsh yash rc es osh ysh ion nu \
                   elvish xonsh pwsh powershell cmd busybox toybox coreutils uutils wsl",
        with: None,
    },
    // Is a part of the shell, which may evaluate its words or change how words are read.
    Row {
        programs: ". source eval exec command builtin trap alias let test printf read unset declare typeset \
                   local export readonly wait mapfile readarray getopts shift return break continue exit set \
                   ulimit umask hash type fc bind enable shopt complete compgen compopt jobs fg bg disown pushd \
                   popd dirs cd",
        with: None,
    },
    // Runs programs on other machines, and programs here by its options.
    Row {
        programs: "ssh scp sftp rsync mosh rsh telnet nc ncat socat",
        with: None,
    },
    // Runs programs in other places, with the rights of a service.
    Row {
        programs: "docker podman nerdctl buildah kubectl oc helm lxc incus vagrant distrobox toolbox flatpak \
                   snap ansible ansible-playbook",
        with: None,
    },
    // Runs programs later, elsewhere or by a script.
    Row {
        programs: "at batch crontab systemctl launchctl service tmux screen zellij expect xdg-open open gio \
                   osascript tclsh wish",
        with: None,
    },
    // Is an editor or a pager with commands that run programs.
    Row {
        programs: "vi vim nvim view ex ed emacs emacsclient nano less more man code fzf sk",
        with: None,
    },
    // Runs code that its words hold, and that code can run programs.
    Row {
        programs: "awk gawk mawk nawk sed gsed m4 dc sqlite psql mysql mariadb gnuplot octave r ghci irb pry iex \
                   erl jshell groovy scala clojure clj bb guile racket sbcl ocaml ghc runghc ts-node tsx \
                   ipython bpython sbt lein",
        with: None,
    },
    // Fetches or finds a program by its name, and runs it.
    Row {
        programs: "npx pnpx bunx uvx pipx dlx tox nox rye",
        with: None,
    },
    // Has options that name a program to run.
    Row {
        programs: "tar gtar bsdtar zip cpio apt apt-get aptitude dpkg rpm yum dnf apk pacman zypper install \
                   split latexmk pdflatex xelatex lualatex tex latex wget rustc rustdoc gpg",
        with: None,
    },
    // Runs a program for each file, deletes files, or writes one.
    Row {
        programs: "find gfind",
        with: Some(With {
            begins: "-exec -ok -delete -fprint -fls",
            ..NOTHING
        }),
    },
    // Runs a program for each file.
    Row {
        programs: "fd fdfind",
        with: Some(With {
            letters: "xX",
            options: "exec exec-batch",
            ..NOTHING
        }),
    },
    // Has an option that names a program to run.
    Row {
        programs: "rg ag ack bat batcat delta sort ctags sdiff diff3 openssl",
        with: Some(With {
            options: "pre hostname-bin compress-program options pager diff-program engine provider-path",
            ..NOTHING
        }),
    },
    // Takes settings, hooks and programs from its words, which it runs, and the name of a file, which it writes.
    Row {
        programs: "git",
        with: Some(With {
            letters: "cxO",
            options: "config-env exec-path upload-pack receive-pack exec template ext-diff textconv \
                   open-files-in-pager extcmd tool config sendmail-cmd smtp-server to-cmd cc-cmd paginate \
                   editor man web output",
            words: "bisect submodule filter-branch filter-repo difftool mergetool config hook rebase send-email \
                   instaweb daemon help credential shell worktree clone ls-remote fetch-pack send-pack archive \
                   maintenance for-each-repo imap-send p4 svn remote-ext",
            begins: "ext:: alias.",
        }),
    },
    // Takes settings and programs from its words, which it runs.
    Row {
        programs: "hg svn jj",
        with: Some(With {
            options: "config config-option config-toml config-file tool diff-cmd editor-cmd ssh",
            words: "config extdiff bisect fix run util",
            ..NOTHING
        }),
    },
    // Takes settings from its words that name a program to run.
    Row {
        programs: "cargo",
        with: Some(With {
            letters: "Z",
            options: "config",
            words: "rustc rustdoc watch miri with script",
            begins: "+",
        }),
    },
    // Runs the program that follows.
    Row {
        programs: "rustup",
        with: Some(With {
            words: "run",
            ..NOTHING
        }),
    },
    // Has options that name a program to run.
    Row {
        programs: "go",
        with: Some(With {
            options: "exec toolexec vettool ldflags gccgoflags gcflags asmflags overlay compiler fixtool",
            words: "tool env generate bug run",
            ..NOTHING
        }),
    },
    // Runs any program of a package, or code.
    Row {
        programs: "npm pnpm yarn bun deno corepack",
        with: Some(With {
            letters: "cep",
            options: "call script-shell shell shell-mode node-options git viewer editor eval print preload require",
            words: "exec x dlx node explore edit config c set init create innit eval repl sh bash env xargs sudo \
                   shell",
            ..NOTHING
        }),
    },
    // Runs the file that follows.
    Row {
        programs: "deno bun",
        with: Some(With {
            words: "run",
            ..NOTHING
        }),
    },
    // Runs the program that follows in an environment.
    Row {
        programs: "uv poetry pdm hatch pipenv conda mamba micromamba bundle bundler rbenv pyenv nodenv asdf \
                   mise rtx volta fnm nvm rvm composer dotnet gem brew pip",
        with: Some(With {
            options: "exec python config-settings global-option install-option build-option",
            words: "run run-script exec x tool shell env sh open console script fsi do each",
            ..NOTHING
        }),
    },
    // Reads rules or settings from its words, such as the shell to run.
    Row {
        programs: "make gmake bmake ninja just task",
        with: Some(With {
            letters: "E",
            options: "eval shell shell-arg command set",
            begins: "=",
            ..NOTHING
        }),
    },
    // Runs scripts and programs that its words name, and reads the programs to build with from them.
    Row {
        programs: "cmake",
        with: Some(With {
            letters: "EPCD",
            begins: "=",
            ..NOTHING
        }),
    },
    // Runs scripts and programs that its words name.
    Row {
        programs: "ctest",
        with: Some(With {
            letters: "S",
            options: "build-and-test script script-new-process",
            ..NOTHING
        }),
    },
    // Has options that name a program to run tests with.
    Row {
        programs: "meson bazel bazelisk buck",
        with: Some(With {
            options: "wrapper gdb-path run_under workspace_status_command shell_executable bazelrc",
            words: "devenv run",
            ..NOTHING
        }),
    },
    // Runs the program that follows, and reads the program to build with from its words.
    Row {
        programs: "stack cabal opam dune",
        with: Some(With {
            letters: "w",
            options: "exec test-wrapper ghc-option ghc-options",
            words: "exec run repl ghci runghc runhaskell script eval top utop",
            begins: "--with-",
        }),
    },
    // Runs the file or the module that follows.
    Row {
        programs: "coverage",
        with: Some(With {
            words: "run",
            ..NOTHING
        }),
    },
    // Runs code that its words hold.
    Row {
        programs: "python pypy",
        with: Some(With {
            letters: "c",
            words: "-",
            ..NOTHING
        }),
    },
    // Runs code or modules that its words hold.
    Row {
        programs: "node nodejs",
        with: Some(With {
            letters: "epr",
            options: "eval print require import loader experimental-loader env-file run snapshot-blob \
                   experimental-config-file",
            words: "- inspect",
            begins: "--test-reporter --test-global-setup",
        }),
    },
    // Runs code or modules that its words hold.
    Row {
        programs: "perl ruby php lua luajit rscript julia elixir",
        with: Some(With {
            letters: "eEMmrlnpdDBRL",
            options: "eval print run require load execute",
            words: "- tinker",
            ..NOTHING
        }),
    },
    // Runs code that its words hold.
    Row {
        programs: "mix rake rails swift zig",
        with: Some(With {
            letters: "eEpr",
            options: "eval execute execute-print execute-continue require",
            words: "run eval cmd do runner r console repl dbconsole db",
            ..NOTHING
        }),
    },
    // Has options that name a program to run.
    Row {
        programs: "java",
        with: Some(With {
            options: "javaagent agentlib agentpath",
            begins: "-XX:On @ -X",
            ..NOTHING
        }),
    },
    // Takes settings and tasks from its words that name a program to run.
    Row {
        programs: "mvn mvnw gradle gradlew ant",
        with: Some(With {
            letters: "DIPcb",
            options: "init-script system-prop project-prop build-file define exec",
            words: "run shell repl",
            begins: "exec: org. antrun:",
        }),
    },
    // Has options that name a program or a plug-in to run.
    Row {
        programs: "gcc g++ cc c++ cpp clang clang++ ld as",
        with: Some(With {
            letters: "B",
            options: "wrapper specs plugin fplugin dynamic-linker",
            begins: "@ -Wl -Xclang -fuse-ld",
            ..NOTHING
        }),
    },
    // Reads further options from a file.
    Row {
        programs: "curl",
        with: Some(With {
            letters: "K",
            options: "config",
            ..NOTHING
        }),
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

/// The program is known by this name: as it is, without a version, as another build of Python (`python3.13t`), with
/// the `g` that some systems put before GNU programs, or as a loader with the name of a machine.
fn is_named(program: &str, known: &str) -> bool {
    let whole = whole_name(program);
    let is_loader = known.starts_with("ld-") || known == "qemu";
    let is_gnu = |name: &str| name == known || base(name) == known;
    whole == known
        || base(program) == known
        || (known == "python" && whole.starts_with(known))
        || whole.strip_prefix('g').is_some_and(is_gnu)
        || (is_loader
            && whole
                .strip_prefix(known)
                .is_some_and(|rest| rest.starts_with(['-', '.'])))
}

/// A prefix of this program alone would cover all that it can do.
pub(super) fn needs_second_word(program: &str) -> bool {
    is_among(NEED_SECOND, program)
}

/// The command runs a program, or code, that its words name.
pub(super) fn runs_another(words: &[String]) -> bool {
    let Some((program, rest)) = words.split_first() else {
        return true;
    };
    let mut rows = ROWS.iter().filter(|row| is_among(row.programs, program));
    rows.any(|row| match &row.with {
        None => true,
        Some(with) => rest.iter().any(|word| with.is_met_by(word)),
    })
}

fn is_among(programs: &str, program: &str) -> bool {
    let mut programs = programs.split_ascii_whitespace();
    programs.any(|known| is_named(program, known))
}

impl With {
    fn is_met_by(&self, word: &str) -> bool {
        let options = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
        let has_letter = |options: &str| options.contains(|c: char| self.letters.contains(c));
        let mut begins = self.begins.split_ascii_whitespace();
        options.is_some_and(has_letter)
            || self.has_option(word)
            || self.words.split_ascii_whitespace().any(|it| it == word)
            || begins.any(|begin| match begin {
                "=" => !word.starts_with('-') && word.contains('='),
                begin => word.starts_with(begin),
            })
    }

    fn has_option(&self, word: &str) -> bool {
        let name = word.split('=').next().unwrap_or_default();
        let mut options = self.options.split_ascii_whitespace();
        match (name.strip_prefix("--"), name.strip_prefix('-')) {
            (Some(""), _) | (None, None) => false,
            (Some(name), _) => options.any(|option| option.starts_with(name)),
            (None, Some(name)) => options.any(|option| option == name),
        }
    }
}
