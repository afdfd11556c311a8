use super::*;

/// Each text, and what an approval of further commands would cover: `-` if it is no simple command, and nothing if
/// there is no prefix.
const TEXTS: &[(&str, &str)] = &[
    // Plain words.
    ("ls", "ls"),
    ("ls -la", "ls"),
    ("  ls\t-la  ", "ls"),
    ("ls src", "ls src"),
    ("ls src/rules", "ls"),
    ("cat README.md", "cat README.md"),
    ("grep -rn fold src", "grep"),
    ("cargo test", "cargo test"),
    ("cargo test --workspace -- --nocapture", "cargo test"),
    ("cargo llvm-cov report", "cargo llvm-cov"),
    ("go test -v ./...", "go test"),
    ("npm test", "npm test"),
    ("npm run test:unit", "npm run"),
    ("git status --short", "git status"),
    ("git log --oneline -5", "git log"),
    ("make", "make"),
    ("make -j8 check", "make"),
    ("./gradlew test", "./gradlew test"),
    ("python3 -m pytest -q tests", "python3 -m pytest"),
    ("python3 setup.py build", "python3 setup.py"),
    ("python tools/gen.py x", "python tools/gen.py"),
    ("node --test", "node --test"),
    ("node --test --test-name-pattern=adds", "node --test"),
    ("g++ -O2 a.cpp", "g++"),
    ("ls größe", "ls"),
    // Quotes with nothing to expand.
    ("git commit -m 'two words; and $more `here`'", "git commit"),
    ("git commit -m \"two words; > and | more\"", "git commit"),
    ("grep -n \"a\\$b\\\"c\\\\d\" src", "grep"),
    ("'ls' src", "ls src"),
    ("l's' \"src\"", "ls src"),
    ("echo ''", "echo"),
    ("ls \"my docs\"", "ls"),
    ("ls my\\ docs", "ls"),
    ("grep a\\|b x", "grep"),
    ("echo '\u{a0}→'", "echo"),
    // Not closed, and escapes that are no plain ones.
    ("echo 'a", "-"),
    ("echo \"a", "-"),
    ("echo a\\", "-"),
    ("echo \\n", "-"),
    ("echo \"\\n\"", "-"),
    ("echo \"\\!\"", "-"),
    ("echo a\\\nb", "-"),
    // What a shell expands or starts.
    ("ls $HOME", "-"),
    ("ls \"$HOME\"", "-"),
    ("ls ${HOME}", "-"),
    ("ls $(id)", "-"),
    ("ls \"$(id)\"", "-"),
    ("ls `id`", "-"),
    ("ls \"`id`\"", "-"),
    ("echo $'a\\nb'", "-"),
    ("ls *.rs", "-"),
    ("ls a?", "-"),
    ("ls [ab]", "-"),
    ("ls ~", "-"),
    ("ls ~root/x", "-"),
    ("ls {a,b}", "-"),
    ("echo hi!", "-"),
    ("echo \"hi!\"", "-"),
    ("ls # x", "-"),
    ("ls #x", "-"),
    ("ls; id", "-"),
    ("ls;", "-"),
    ("ls & id", "-"),
    ("ls &", "-"),
    ("ls && id", "-"),
    ("ls || id", "-"),
    ("ls | sh", "-"),
    ("ls |& sh", "-"),
    ("ls > x", "-"),
    ("ls >>x", "-"),
    ("ls 2>&1", "-"),
    ("cat < x", "-"),
    ("cat <<< x", "-"),
    ("cat <(id)", "-"),
    ("(ls)", "-"),
    ("{ ls; }", "-"),
    ("! ls", "-"),
    ("f() { ls; }", "-"),
    ("if true", "-"),
    ("while true", "-"),
    ("time ls", "-"),
    ("[ -f x ]", "-"),
    ("[[ -f x ]]", "-"),
    ("A=b ls", "-"),
    ("PATH=.:/bin ls", "-"),
    ("A=b", "-"),
    ("ls ^x", "-"),
    ("ls\nid", "-"),
    ("ls\rid", "-"),
    ("ls\r", "-"),
    ("ls\0id", "-"),
    ("'ls\0id'", "-"),
    ("echo 'a\nb'", "-"),
    ("ls\u{b}src", "-"),
    ("ls\u{a0}src", "-"),
    ("ls\u{2003}src", "-"),
    ("ls\u{200b}src", "-"),
    ("ls \u{202e}src", "-"),
    ("\u{feff}ls", "-"),
    ("ls \u{2028}src", "-"),
    ("ls “src”", "-"),
    ("", "-"),
    ("   ", "-"),
    ("''", "-"),
    ("\"\" ls", "-"),
    // Programs that run another one.
    ("env ls", ""),
    ("/usr/bin/env ls", ""),
    ("sudo ls", ""),
    ("SUDO ls", ""),
    ("doas ls", ""),
    ("su root", ""),
    ("sh x.sh", ""),
    ("bash x.sh", ""),
    ("bash-5.2 x.sh", ""),
    ("/bin/sh x.sh", ""),
    ("'sh' -c id", ""),
    ("s'h' -c id", ""),
    ("busybox ls", ""),
    ("xargs rm", ""),
    ("nohup ls", ""),
    ("timeout 5 ls", ""),
    ("nice ls", ""),
    ("watch ls", ""),
    ("parallel ls", ""),
    ("ssh host ls", ""),
    ("exec ls", ""),
    ("eval ls", ""),
    (". x", ""),
    ("source x", ""),
    ("printf -v x y", ""),
    ("/lib64/ld-linux-x86-64.so.2 /bin/ls", ""),
    ("find . -name x", "find"),
    ("find . -exec rm x", ""),
    ("find . -execdir rm x", ""),
    ("find . -ok rm x", ""),
    ("find . -delete", ""),
    ("find . '-exec' rm x", ""),
    ("fd x", "fd x"),
    ("fd x -x rm", ""),
    ("rg --pre ./x y", ""),
    ("sort --compress-prog=./x y", ""),
    ("git -c core.pager=x log", ""),
    ("git -C sub status", ""),
    ("git log -c", ""),
    ("git --exec-path=x log", ""),
    ("git fetch --upload-pack=x", ""),
    ("git fetch --upl x", ""),
    ("git grep -Oless x", ""),
    ("git rebase -x ls", ""),
    ("git bisect run ls", ""),
    ("git config alias.x y", ""),
    ("git", ""),
    ("cargo", ""),
    ("cargo +nightly test", ""),
    ("cargo --config x test", ""),
    ("cargo test --config=x", ""),
    ("go test -exec ./x ./...", ""),
    ("go run x.go", ""),
    ("npm exec x", ""),
    ("npx x", ""),
    ("npm run x --script-shell=./y", ""),
    ("uv run x", ""),
    ("poetry run x", ""),
    ("make SHELL=./x", ""),
    ("make --eval=x", ""),
    ("python -c 'import os'", ""),
    ("python3 -Ic 'import os'", ""),
    ("python3.12 -c x", ""),
    ("python -m timeit x", ""),
    ("python", ""),
    ("python -", ""),
    ("node -e x", ""),
    ("node --eval x", ""),
    ("node --import ./x y.js", ""),
    ("node --test --test-reporter=./x", ""),
    ("perl -e x", ""),
    ("perl -ne x", ""),
    ("ruby -e x", ""),
    ("awk x", ""),
    ("sed -i x y", ""),
    ("sed -n 1p x", ""),
    ("tar -cf x y", ""),
    ("vim x", ""),
    ("docker run x", ""),
    ("gcc -wrapper sh,-c,id x.c", ""),
    ("java -XX:OnError=x Main", ""),
    ("gtimeout 5 ls", ""),
    ("genv ls", ""),
    ("coreutils env ls", ""),
    ("ccache sh -c id", ""),
    ("cargo-watch -s id", ""),
    ("python3.13t -c x", ""),
    ("cmake --build build", "cmake"),
    ("cmake -S . -B build", "cmake"),
    ("cmake -E env ls", ""),
    ("cmake -P x.cmake", ""),
    ("ctest --output-on-failure", "ctest"),
    ("ctest -S x.cmake", ""),
    ("sbt test", ""),
    ("bazel test x --run_under=./y", ""),
    ("meson test --wrapper ./x", ""),
    ("stack test", "stack test"),
    ("stack test --exec ./x", ""),
    ("coverage report", "coverage report"),
    ("coverage run x.py", ""),
    ("./mvnw test", "./mvnw test"),
    ("./mvnw -q test", ""),
    ("php artisan tinker --execute=x", ""),
    ("git diff --output=src/main.rs", ""),
    ("git log --outp=x", ""),
    ("bat --pager ./x y", ""),
    ("-x ls", ""),
    ("сargo test", ""),
    ("dir/.. x", ""),
];

fn covered(text: &str) -> String {
    let Some(words) = simple_command(text) else {
        return "-".to_owned();
    };
    prefix_of(&words).map_or_else(String::new, |prefix| prefix.join(" "))
}

#[test]
fn an_approval_covers_what_begins_with_the_same_words() {
    assert!(TEXTS.len() >= 60, "{} texts", TEXTS.len());
    for (text, expected) in TEXTS {
        assert_eq!(covered(text), *expected, "{text:?}");
    }
}

/// What is offered for a command covers it, and what covers nothing is covered by nothing.
#[test]
fn a_prefix_covers_its_own_command_and_no_other_kind_of_command() {
    let prefixes: Vec<Vec<String>> = TEXTS
        .iter()
        .filter_map(|(text, _)| prefix_of(&simple_command(text)?))
        .collect();
    for (text, expected) in TEXTS {
        if let Some(prefix) = simple_command(text).and_then(|words| prefix_of(&words)) {
            assert!(is_covered(&prefix, text), "{text:?}");
        }
        if matches!(*expected, "-" | "") {
            let by = prefixes.iter().find(|prefix| is_covered(prefix, text));
            assert_eq!(by, None, "{text:?}");
        }
    }
}

#[test]
fn a_prefix_ends_at_the_end_of_a_word() {
    let prefix = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let cargo = prefix("cargo test");
    for inside in ["cargo test", "cargo  test -q", "cargo 'test' x"] {
        assert!(is_covered(&cargo, inside), "{inside}");
    }
    for outside in [
        "cargo tests",
        "cargo 'test x'",
        "cargo",
        "cargo -q test",
        "cargo build",
        "/x/cargo test",
        "Cargo test",
        "cargo test; ls",
        "cargo test --config x",
    ] {
        assert!(!is_covered(&cargo, outside), "{outside}");
    }
    assert!(!is_covered(&[], "ls"), "an empty prefix covers nothing");
}

#[test]
fn a_program_is_known_in_any_case_and_version() {
    for program in [
        "qemu-x86_64",
        "ld-musl-x86_64.so.1",
        "sh.exe",
        "python3.11",
        "Bash",
    ] {
        let words = [program, "-c", "x"].map(str::to_owned);
        assert_eq!(prefix_of(&words), None, "{program}");
    }
}
