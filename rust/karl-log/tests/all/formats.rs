//! Each format claims the records of its own tool and no other's, and every one of its fields means something.

use std::fs;

use karl_log::format::preset::{GENERIC, PRIME_RL};
use karl_log::format::{FORMATS, Fields, Overrides, by_keys, by_name};
use karl_log::read::read;
use karl_log::{Log, Watch};
use serde_json::json;

use crate::logs::{self, files, folder, log, log_with, open, settings};

#[test]
fn every_signature_tells_its_own_format_and_no_part_of_it_does() {
    for format in FORMATS {
        for signature in format.signatures {
            let keys: Vec<String> = signature.iter().map(|key| (*key).to_owned()).collect();
            assert_eq!(by_keys(&keys).name, format.name);
            for left_out in 0..keys.len() {
                let mut fewer = keys.clone();
                fewer.remove(left_out);
                assert_eq!(by_keys(&fewer).name, GENERIC.name, "{} without {left_out}", format.name);
            }
        }
        assert_eq!(by_name(&format.name.to_uppercase().replace('-', "_")).unwrap().name, format.name);
    }
}

#[test]
fn every_field_of_a_format_means_something() {
    for format in FORMATS {
        let fields = Fields::new(format, &Overrides::default(), Some(8)).unwrap();
        assert_eq!(fields.group.is_empty(), format.group.is_empty(), "{}", format.name);
        assert!(fields.paths().iter().any(|(name, _)| *name == "reward"));
    }
}

#[test]
fn a_sidecar_gives_its_number_to_the_group_and_its_lack_leaves_none() {
    let paths = |number| Fields::new(&PRIME_RL, &Overrides::default(), number).unwrap().paths();
    let group = ("group", "run_id,step,problem_id,sample_id//4".to_owned());
    assert!(paths(Some(4)).contains(&group));
    assert!(!paths(None).iter().any(|(name, _)| *name == "group"));
}

fn names(log: &Log) -> Vec<&str> {
    log.group.names().iter().map(AsRef::as_ref).collect()
}

#[test]
fn the_sidecar_of_a_packed_log_lies_beside_it_too() {
    let mut record = json!({"run_id": "r", "step": 1, "problem_id": 0, "sample_id": 9, "env_name": "e"});
    for (key, value) in
        [("prompt", json!("[]")), ("completion", json!("[]")), ("reward", json!(1)), ("advantage", json!(0))]
    {
        record[key] = value;
    }
    let folder = folder();
    fs::write(folder.path().join("run_manifest.json"), r#"{"rollouts_per_example": 5}"#).unwrap();
    let packed = files(&folder, &[logs::zstd(record.to_string().as_bytes())]);
    let log = read(open(&packed), &settings(), &Watch::new()).unwrap();
    assert_eq!(names(&log), ["r/1/0/1"]);
}

#[test]
fn a_choice_that_is_null_or_empty_gives_way_to_the_next_and_the_last_stands() {
    let mut settings = settings();
    settings.wishes.overrides.group = Some("a|b.c|d".to_owned());
    let group = |record: &str| {
        let log = log_with(&[record], &settings);
        names(&log).first().map(|name| (*name).to_owned())
    };
    assert_eq!(group(r#"{"d": 3, "b": {"c": 2}, "a": 1, "reward": 1}"#).as_deref(), Some("1"));
    assert_eq!(group(r#"{"a": null, "b": {"c": 2}, "d": 3, "reward": 1}"#).as_deref(), Some("2"));
    assert_eq!(group(r#"{"a": "", "b": "no object", "d": 3, "reward": 1}"#).as_deref(), Some("3"));
    assert_eq!(group(r#"{"a": 1, "a": null, "d": 3, "reward": 1}"#).as_deref(), Some("3"));
    assert_eq!(group(r#"{"a": null, "d": "", "reward": 1}"#).as_deref(), Some(""));
    assert_eq!(group(r#"{"a": null, "d": null, "reward": 1}"#), None);
}

#[test]
fn an_id_of_no_parts_is_the_hash_of_the_record() {
    let record = r#"{"input": "q", "output": "a", "gts": null, "score": 1.0, "step": 1}"#;
    let log = log(record);
    assert_eq!((log.keys.get(0).id >> 64) as u64, log.digests()[0]);
    assert_eq!(log.accounts[0].without_id, 1);
}
