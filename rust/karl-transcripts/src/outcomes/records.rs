//! Records of files of trajectories, in two passes: one to judge them, one to write them.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use karl_log::cancel::Watch;
use karl_log::columns::{RowSink, ScannedRow};
use karl_log::detect::{Input, Wishes, probe};
use karl_log::error::{Error, Result};
use karl_log::extract::{ScanSettings, Scanner};
use karl_log::format::preset::TRAJECTORY;
use karl_log::framing::lines::{RANGE, RangeTask};
use karl_log::input::source::Source;
use karl_log::log::Account;
use karl_log::parallel::{map, share};
use karl_log::read::{end, pieces, read_again, scan_all, tasks_of};
use karl_log::rejects::FileTally;
use karl_redact::secrets::{SecretCounts, add};

use crate::convert::output::Output;

/// Account of each file.
pub(super) type Accounts = Vec<(PathBuf, Account)>;

/// Files of trajectories, in ranges of bytes.
pub(super) struct Records {
    pub(super) inputs: Vec<Input>,
    tasks: Vec<RangeTask>,
    limit: usize,
    threads: usize,
}

impl Records {
    /// Look at every file.
    ///
    /// # Errors
    /// As [`probe`].
    pub(super) fn look(sources: Vec<Source>, limit: usize, threads: usize, watch: &Watch) -> Result<Self> {
        let wishes = Wishes { format: Some(&TRAJECTORY), max_line_bytes: limit, ..Wishes::default() };
        let inputs = sources.into_iter().map(|source| probe(source, &wishes, watch));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        Ok(Self { tasks: tasks(&inputs), inputs, limit, threads })
    }

    /// Pass every record to `one`; return the results in the order of the files, and the account of each file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Interrupted`].
    pub(super) fn read<T: Send>(
        &mut self,
        one: impl Fn(&ScannedRow<'_>) -> T + Sync,
        watch: &Watch,
    ) -> Result<(Vec<T>, Accounts)> {
        loop {
            let done = map(self.tasks.clone(), self.threads, |task| {
                let mut found = Vec::new();
                self.scan(task, |row| found.push(one(row)), watch).map(|tally| (found, tally))
            });
            let (found, tallies): (Vec<_>, Vec<_>) =
                done.into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
            if !read_again(&mut self.inputs, self.tasks.iter().zip(&tallies), watch) {
                return Ok((found.into_iter().flatten().collect(), self.accounts(&tallies)));
            }
            self.tasks = tasks(&self.inputs);
        }
    }

    /// Write what `one` makes of every record; return the number of replaced secrets.
    ///
    /// # Errors
    /// Those of `one`, and of the output.
    pub(super) fn write(
        &self,
        output: &Output<'_>,
        one: impl Fn(&ScannedRow<'_>, &mut Vec<u8>) -> Result<()> + Sync,
        watch: &Watch,
    ) -> Result<SecretCounts> {
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let secrets = Mutex::new(SecretCounts::new());
        share(self.tasks.len(), self.threads, |queue| {
            while let Some(at) = queue.take() {
                let (mut lines, mut written) = (Vec::new(), Ok(()));
                let take = |row: &ScannedRow<'_>| {
                    if written.is_ok() {
                        written = one(row, &mut lines);
                    }
                };
                let done = self.scan(self.tasks[at], take, watch).and(written);
                let done = done.and_then(|()| output.put(at, lines)).map(|replaced| {
                    let mut secrets = secrets.lock().unwrap_or_else(PoisonError::into_inner);
                    add(&mut secrets, replaced);
                });
                if let Err(error) = done {
                    output.fail();
                    queue.close();
                    let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    // A thread that another one stopped reports only an interruption.
                    if first.as_ref().is_none_or(|first| matches!(first, Error::Interrupted)) {
                        *first = Some(error);
                    }
                }
            }
        });
        let secrets = secrets.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(secrets), Err)
    }

    fn scan(&self, task: RangeTask, take: impl FnMut(&ScannedRow<'_>), watch: &Watch) -> Result<FileTally> {
        let input = &self.inputs[task.input];
        let mut scanner = Scanner::new(task.input, &input.fields, ScanSettings::default());
        let mut tally = FileTally::default();
        let read = pieces(input, task, self.limit, watch)
            .and_then(|pieces| scan_all(pieces, &mut scanner, &mut Sink(take), &mut tally, watch));
        end(read, &input.source.name, input.source.codec, &mut tally)?;
        Ok(tally)
    }

    fn accounts(&self, tallies: &[FileTally]) -> Accounts {
        let mut accounts = vec![(0, Account::default()); self.inputs.len()];
        for (task, tally) in self.tasks.iter().zip(tallies) {
            let (lines, account) = &mut accounts[task.input];
            account.add(tally, *lines);
            *lines += tally.lines;
        }
        let names = self.inputs.iter().map(|input| input.source.name.clone().into());
        names.zip(accounts.into_iter().map(|(_, account)| account)).collect()
    }
}

fn tasks(inputs: &[Input]) -> Vec<RangeTask> {
    inputs.iter().enumerate().flat_map(|(at, input)| tasks_of(at, input, RANGE)).collect()
}

struct Sink<F>(F);

impl<F: FnMut(&ScannedRow<'_>)> RowSink for Sink<F> {
    fn push(&mut self, found: &ScannedRow<'_>) {
        (self.0)(found);
    }
}
