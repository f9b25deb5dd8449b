//! Members of an object, and keys that occur again.

use super::walk::{DumpsResult, ObjectMember, Refused, Walk};

/// Objects of up to so many keys are compared pair by pair, which needs no memory; larger ones are sorted.
const FEW: usize = 32;

impl Walk<'_, '_> {
    /// Walk over an object; its members are the last of `members`, each key once.
    pub(super) fn object(&mut self) -> DumpsResult {
        let first = self.members.len();
        self.open()?;
        if self.peek() == Some(b'}') {
            return self.close();
        }
        loop {
            self.member()?;
            if self.ends(b'}')? {
                self.close()?;
                break;
            }
        }
        if self.repeats(first) {
            self.merge(first);
        }
        Ok(())
    }

    fn member(&mut self) -> DumpsResult {
        let key = self.key()?;
        self.tight();
        if self.peek() != Some(b':') {
            return Err(Refused::Invalid);
        }
        self.at += 1;
        self.spaced();
        let value = self.here();
        self.value()?;
        self.members.push(ObjectMember { value, end: self.here(), ..key });
        Ok(())
    }

    fn key(&mut self) -> DumpsResult<ObjectMember> {
        if self.peek() != Some(b'"') {
            return Err(Refused::Invalid);
        }
        let key = self.here();
        self.string()?;
        // A key that was written anew in part is written whole, so that it is one slice.
        if key < self.out.len() {
            self.flush();
        }
        let key_end = self.here();
        Ok(ObjectMember { key, key_end, value: 0, end: 0, tail: tail(self.written(key, key_end)) })
    }

    /// Return what the text becomes between two places; all of it is written, or nothing.
    fn written(&self, start: usize, end: usize) -> &[u8] {
        match start.checked_sub(self.out.len()) {
            Some(ahead) => &self.bytes[self.copied + ahead..self.copied + ahead + end - start],
            None => &self.out[start..end],
        }
    }

    fn key_of(&self, member: &ObjectMember) -> &[u8] {
        self.written(member.key, member.key_end)
    }

    /// Return whether a key of the innermost object occurs twice.
    fn repeats(&self, first: usize) -> bool {
        let members = &self.members[first..];
        let same = |one: &ObjectMember, two: &ObjectMember| {
            one.tail == two.tail && self.key_of(one) == self.key_of(two)
        };
        if members.len() <= FEW {
            return (1..members.len()).any(|at| members[..at].iter().any(|one| same(one, &members[at])));
        }
        let mut sorted: Vec<&ObjectMember> = members.iter().collect();
        sorted.sort_unstable_by_key(|member| self.key_of(member));
        sorted.windows(2).any(|pair| same(pair[0], pair[1]))
    }

    /// Write the innermost object anew: each key at its first place, with its last value.
    fn merge(&mut self, first: usize) {
        self.flush();
        let start = self.members[first].key - 1;
        let old = self.out.split_off(start);
        let of = |from: usize, to: usize| &old[from - start..to - start];
        let members = self.members.split_off(first);
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&at| of(members[at].key, members[at].key_end));
        // The sort is stable: of equal keys the first comes first and the last last.
        let groups = order.chunk_by(|&one, &two| {
            of(members[one].key, members[one].key_end) == of(members[two].key, members[two].key_end)
        });
        let mut kept: Vec<(usize, usize)> =
            groups.filter_map(|group| Some((*group.first()?, *group.last()?))).collect();
        kept.sort_unstable();
        self.out.push(b'{');
        for (number, (one, last)) in kept.into_iter().enumerate() {
            if number > 0 {
                self.out.extend_from_slice(b", ");
            }
            let (one, last) = (members[one], members[last]);
            let key = self.out.len();
            self.out.extend_from_slice(of(one.key, one.key_end));
            let key_end = self.out.len();
            self.out.extend_from_slice(b": ");
            let value = self.out.len();
            self.out.extend_from_slice(of(last.value, last.end));
            self.members.push(ObjectMember { key, key_end, value, end: self.out.len(), tail: one.tail });
        }
        self.out.push(b'}');
    }
}

/// Return the last eight bytes of a text, or all of them.
fn tail(text: &[u8]) -> u64 {
    text.last_chunk().map_or_else(
        || text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        |last| u64::from_le_bytes(*last),
    )
}
