//! Law 1: every row that was read is in the log or among the bad rows, whatever the bytes.

use karl_log::Error;
use karl_log::read::ReadSettings;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::logs::{self, bad_count, balanced, fixed, gzip, settings, strictly, try_read, zstd};

fn whole() -> String {
    let row = |at: u32| {
        format!("{{\"id\":{at},\"group\":\"g\",\"reward\":0.{at},\"messages\":[{{\"role\":\"user\"}}]}}")
    };
    let rows: Vec<String> = (0..8).map(row).collect();
    rows.join("\n") + "\n"
}

/// Reads bytes; a file that is not a log is an error by name, and every other is accounted for.
fn accounted(bytes: &[u8], strict: bool) -> std::result::Result<Option<karl_log::Log>, TestCaseError> {
    let how = if strict { strictly() } else { settings() };
    match try_read(&[bytes], &ReadSettings { threads: 2, ..how }) {
        Err(Error::Layout { .. } | Error::Document { .. }) => Ok(None),
        Err(error) => Err(TestCaseError::fail(error.to_string())),
        Ok(log) => {
            prop_assert!(balanced(&log), "{:?}", log.accounts);
            let blank = bytes.iter().all(u8::is_ascii_whitespace);
            prop_assert!(blank || bytes[0] == b'[' || log.accounts[0].read > 0, "{}", bytes.escape_ascii());
            Ok(Some(log))
        }
    }
}

proptest! {
    #![proptest_config(fixed(150))]

    #[test]
    fn any_bytes_are_accounted_for(bytes in prop::collection::vec(any::<u8>(), 1..300)) {
        accounted(&bytes, false)?;
        accounted(&gzip(&bytes), false)?;
    }

    #[test]
    fn any_structure_is_accounted_for(
        tokens in prop::collection::vec(select(vec!["{", "}", "[", "]", ",", ":", "\"", "\\", "\n", " ", "1", "\"id\":1", "{\"id\":2}", "\"results\":"]), 1..60),
        first in select(vec!["", "{", "[", "{\"results\":["]),
    ) {
        let text = first.to_owned() + &tokens.concat();
        accounted(text.as_bytes(), false)?;
    }

    #[test]
    fn a_changed_log_is_accounted_for(at in any::<Index>(), byte in any::<u8>(), more in any::<Index>(), strict in any::<bool>()) {
        let mut bytes = whole().into_bytes();
        bytes[at.index(whole().len())] = byte;
        bytes[more.index(whole().len())] = b'"';
        let log = accounted(&bytes, strict)?;
        // Two bytes can spoil two rows, or join two pairs of lines into one each.
        prop_assert!(log.is_none_or(|log| log.len() as u64 >= 4), "{}", bytes.escape_ascii());
    }

    #[test]
    fn a_changed_packed_log_is_accounted_for(at in any::<Index>(), byte in any::<u8>(), cut in any::<Index>()) {
        for pack in [gzip, zstd] {
            let mut bytes = pack(whole().as_bytes());
            let at = 4 + at.index(bytes.len() - 4);
            bytes[at] = byte;
            accounted(&bytes, false)?;
            let cut = 4 + cut.index(bytes.len() - 4);
            prop_assert!(accounted(&bytes[..cut], false)?.is_none_or(|log| bad_count(&log) > 0));
        }
    }
}

#[test]
fn an_interrupted_read_says_so() {
    let folder = logs::folder();
    let watch = karl_log::Watch::new();
    watch.stop();
    let sources = logs::open(&logs::files(&folder, &[whole()]));
    assert!(matches!(karl_log::read::read(sources, &settings(), &watch), Err(Error::Interrupted)));
}
