//! Purpose of a command of Bash.
//!
//! Speed: most commands are rejected by four bytes at a time. No record isolates it; `benches/record/reward.json`,
//! v2, log, includes it.

const TESTS: [&str; 6] = ["pytest", "npm test", "bun test", "cargo test", "go test", "make test"];
const BUILDS: [&str; 5] = ["xcodebuild", "cargo build", "make ", "npm run build", "bun build"];

/// The last four bytes of these words.
const ENDS: [u32; 3] =
    [u32::from_le_bytes(*b"test"), u32::from_le_bytes(*b"uild"), u32::from_le_bytes(*b"ake ")];

/// The bits by which small letters differ from capital ones; a space has it too.
const SMALL: u32 = 0x2020_2020;

/// Purpose of a command: to run tests, to build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// True if the command contains one of the six words of tests, in any case.
    pub test: bool,
    /// True if it contains one of the five words of builds.
    pub build: bool,
}

impl Words {
    /// Return the purposes of either of two commands.
    pub(super) fn or(self, other: Self) -> Self {
        Self { test: self.test | other.test, build: self.build | other.build }
    }

    /// Return the purposes of a command.
    ///
    /// ```
    /// use karl_reward::Words;
    ///
    /// assert_eq!(Words::of("cd src && Make test"), Words { test: true, build: true });
    /// assert_eq!(Words::of("make"), Words::default());
    /// ```
    #[must_use]
    pub fn of(command: &str) -> Self {
        // A letter beyond ASCII may have a small form within.
        if command.is_ascii() && !ends(command.as_bytes()) {
            return Self::default();
        }
        let command = command.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| command.contains(word));
        Self { test: has(&TESTS), build: has(&BUILDS) }
    }
}

/// Return whether the command has four bytes that end one of the words; most commands do not.
fn ends(command: &[u8]) -> bool {
    let is_end = |four: &[u8; 4]| ENDS.contains(&(u32::from_le_bytes(*four) | SMALL));
    command.windows(4).any(|four| four.first_chunk().is_some_and(is_end))
}
