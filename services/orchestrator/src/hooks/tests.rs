use super::*;

fn document(id: &str, definition: &pb::HookDefinition) -> Document {
    let stored = HookDocument {
        definition: definition.encode_to_vec(),
    };
    Document {
        id: id.to_owned(),
        value: stored.encode_to_vec().into(),
        ..Document::default()
    }
}

fn asked(url: &str) -> pb::HookDefinition {
    pb::HookDefinition {
        name: "guard".to_owned(),
        points: vec![Point::OnRunStart as i32],
        url: url.to_owned(),
        ..pb::HookDefinition::default()
    }
}

fn hooks(addresses: &[&str]) -> Hooks {
    Hooks::new(&Config {
        hook_addresses: addresses.iter().map(|&it| it.to_owned()).collect(),
        ..Config::default()
    })
}

#[tokio::test]
async fn a_document_counts_while_the_settings_allow_its_address() {
    let document = document("guard", &asked("https://hooks.example.org"));
    let allowed = hooks(&["https://hooks.example.org"]);
    assert!(allowed.may_be_stored());
    let definition = allowed.read(&document).expect("it is allowed");
    assert_eq!(definition.name, "guard");
    let other = hooks(&["https://other.example.org"]);
    assert!(matches!(
        other.read(&document),
        Err(Unusable::NotAllowed(_))
    ));
    assert!(!hooks(&[]).may_be_stored());
}

#[tokio::test]
async fn a_document_that_another_version_wrote_is_not_read() {
    let hooks = hooks(&["https://hooks.example.org"]);
    let mut newer = asked("https://hooks.example.org");
    newer.points.push(99);
    let renamed = document("other", &asked("https://hooks.example.org"));
    let broken = Document {
        id: "guard".to_owned(),
        value: vec![0xff].into(),
        ..Document::default()
    };
    for document in [document("guard", &newer), renamed, broken] {
        let read = hooks.read(&document);
        assert!(matches!(read, Err(Unusable::Unreadable(_))), "{read:?}");
        let present = unreadable(&document);
        assert_eq!(present.pin.digest.len(), 64);
        assert!(present.pin.listens(Point::OnRunStart, None));
        assert!(!present.pin.listens(Point::OnRunEnd, None));
    }
}
