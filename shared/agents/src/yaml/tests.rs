use super::*;

const KNOWN: [&str; 5] = ["name", "description", "tools", "model", "max-turns"];

/// The fields as `line name value`, and the warnings.
fn lines(source: &str) -> Result<Vec<String>, String> {
    let (entries, warnings) = read(source, 1, &KNOWN).map_err(|fault| fault.to_string())?;
    let entries = entries
        .iter()
        .map(|it| format!("{} {} {:?}", it.line, it.name, it.value));
    Ok(entries
        .chain(warnings.iter().map(Fault::to_string))
        .collect())
}

fn check(source: &str, expected: &[&str]) {
    let found = lines(source).unwrap();
    assert_eq!(found, expected, "{source}");
}

fn refused(source: &str, expected: &str) {
    let error = lines(source).unwrap_err();
    assert!(error.contains(expected), "{source}: {error}");
}

#[test]
fn values_have_types_and_lines() {
    check("", &[]);
    check("\n# only a comment\n", &[]);
    check(
        "\nname: a\n\nmodel: 5\n",
        &["3 name Text(\"a\")", "5 model Whole(5)"],
    );
    check("name: yes\n", &["2 name Text(\"yes\")"]);
    check("name: true\n", &["2 name Truth(true)"]);
    check("name: -3\n", &["2 name Number(\"-3\")"]);
    check("name: 0.10\n", &["2 name Number(\"0.1\")"]);
    check("name: \"5\"\n", &["2 name Text(\"5\")"]);
    check("name:\n", &["2 name Nothing"]);
    check("1: a\n", &["2 1 Text(\"a\")"]);
    check(
        "tools:\n  - a\n  - b: 1\n",
        &[
            "2 tools List([Node { line: 3, value: Text(\"a\") }, Node { line: 4, value: Map([Entry { \
             line: 4, name: \"b\", value: Whole(1) }]) }])",
        ],
    );
}

#[test]
fn prose_without_quotes_is_read_as_it_stands() {
    const READ: &str = "line 3: description is no YAML without quotes, and is read as it stands";
    check(
        "name: a\ndescription: Use it when: ready. #1 \\n user: \"x\"\ntools: Read\n",
        &[
            "2 name Text(\"a\")",
            "3 description Text(\"Use it when: ready. #1 \\\\n user: \\\"x\\\"\")",
            "4 tools Text(\"Read\")",
            READ,
        ],
    );
    check(
        "name: a\ndescription: Two\n\nExample:\nuser: \"x\"\n- b\nmodel: c\n",
        &[
            "2 name Text(\"a\")",
            "3 description Text(\"Two\\n\\nExample:\\nuser: \\\"x\\\"\\n- b\")",
            "8 model Text(\"c\")",
            READ,
        ],
    );
    check(
        "name: a\ndescription: *bold* text",
        &[
            "2 name Text(\"a\")",
            "3 description Text(\"*bold* text\")",
            READ,
        ],
    );
}

#[test]
fn a_right_is_never_read_as_prose() {
    refused(
        "description: a: b\ntools: c: d\n",
        "line 3: the front matter is no YAML",
    );
    refused("tools: a: b\n", "line 2: the front matter is no YAML");
    // A misspelled field ends the prose before it, too.
    let (entries, _) = read("description: a: b\ntool: Read\n", 1, &KNOWN).unwrap();
    assert_eq!(entries.len(), 2);
    // What a field of prose has in quotes is no prose without them.
    refused("description: \"a\" b\n", "is no YAML");
}

#[test]
fn what_front_matter_may_not_have_is_refused_with_its_line() {
    refused(
        "a: 1\nb: 2\na: 3\n",
        "line 4: a is there twice (allowed: each field once)",
    );
    refused("a: &x 1\nb: 2\n", "line 2: anchors and aliases");
    refused("a: 1\nb: *x\n", "line 3: anchors and aliases");
    refused("a: !other 1\n", "line 2: tags are not supported");
    refused("<<: {a: 1}\n", "line 2: << is not supported");
    refused(
        "- a\n",
        "line 2: the front matter is a list (allowed: fields of the form",
    );
    refused("just text\n", "line 2: the front matter is \"just text\"");
    refused("a: 1\n...\n--- {b: 2}\n", "more than one document");
    refused("a: [1\n", "the front matter is no YAML");
    refused(&format!("a: {}\n", "[".repeat(40)), "the front matter");
    let deep: String = (0..40)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    refused(&deep, "the front matter is deeper than 16 maps and lists");
    refused(
        &format!("a: [{}]\n", "1,".repeat(5000)),
        "has more than 4096 values",
    );
}
