//! Members of an uncompressed ZIP archive, which is what an `.npz` file is.
//!
//! Only what NumPy's `savez` writes is understood, everything else is refused with an error
//! message. Every offset is checked and every member's CRC-32 too, so that no damage gets past this
//! file; and no byte belongs to two members, so that they hold no more together than the archive
//! does.

use super::error::{Result, bail, ensure, unfit};
use std::collections::BTreeSet;
use std::ops::Range;

/// Marks the end record, which says where the list of members begins.
const END: &[u8] = b"PK\x05\x06";
/// Size of the end record without its comment.
const END_SIZE: usize = 22;
/// Marks one entry of the list of members.
const ENTRY: &[u8] = b"PK\x01\x02";
/// Size of an entry without its name, extra fields and comment.
const ENTRY_SIZE: usize = 46;
/// Marks the extra field of an entry that has its sizes and place with 64 bits; NumPy writes it from 2 GiB on.
const WIDE: u16 = 1;
/// Marks the header before a member's bytes.
const LOCAL: &[u8] = b"PK\x03\x04";
/// Size of that header without its name and extra fields.
const LOCAL_SIZE: usize = 30;

/// One member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member<'a> {
    /// Its name.
    pub(super) name: String,
    /// Its bytes.
    pub(super) bytes: &'a [u8],
}

/// An entry of an archive's list.
struct Entry {
    name: String,
    /// Where the member lies with its header.
    place: Range<usize>,
    /// Where its bytes begin.
    begin: usize,
    crc32: u32,
}

/// The members of `archive`, in the order of its list.
pub(super) fn members(archive: &[u8]) -> Result<Vec<Member<'_>>> {
    let end = find_end(archive)?;
    let count = usize::from(u16_at(archive, end + 10)?);
    let list = u32_at(archive, end + 16)? as usize;
    let (mut at, mut entries, mut names) = (list, Vec::new(), BTreeSet::new());
    for _ in 0..count {
        let (entry, next) = entry(archive, at)?;
        ensure!(names.insert(entry.name.clone()), "the archive holds \"{}\" twice", entry.name);
        entries.push(entry);
        at = next;
    }
    ensure!(at <= end, "the archive's list of members runs past byte {end}, where it ends");
    check_apart(&entries, list)?;
    entries.into_iter().map(|entry| member(archive, entry)).collect()
}

/// Refuses members that share bytes with each other or with the list, which begins at `list`.
fn check_apart(entries: &[Entry], list: usize) -> Result<()> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.place.start);
    for pair in sorted.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        ensure!(
            first.place.end <= second.place.start,
            "members \"{}\" and \"{}\" of the archive overlap at byte {}",
            first.name,
            second.name,
            second.place.start
        );
    }
    match sorted.last() {
        Some(last) if last.place.end > list => {
            bail!(
                "member \"{}\" runs past byte {list}, where the list of members begins",
                last.name
            )
        }
        _ => Ok(()),
    }
}

/// The bytes of an entry, if they are what its checksum says.
fn member(archive: &[u8], entry: Entry) -> Result<Member<'_>> {
    let Entry { name, place, begin, crc32: expected } = entry;
    let bytes = &archive[begin..place.end];
    let seen = crc32fast::hash(bytes);
    ensure!(
        expected == seen,
        "member \"{name}\" is damaged: its CRC-32 is {seen:08x}, but should be {expected:08x}"
    );
    Ok(Member { name, bytes })
}

/// Where the end record begins: the last place where one fits with its comment.
fn find_end(archive: &[u8]) -> Result<usize> {
    let size = archive.len();
    let first = size.saturating_sub(END_SIZE + usize::from(u16::MAX));
    let last = size.checked_sub(END_SIZE);
    let last = last.ok_or_else(|| unfit!("{size} bytes are too few for a ZIP archive"))?;
    let fits = |at: &usize| {
        let comment = u16_at(archive, at + 20).map(usize::from);
        archive[*at..].starts_with(END) && comment.is_ok_and(|n| at + END_SIZE + n == size)
    };
    let found = (first..=last).rev().find(fits);
    found.ok_or_else(|| unfit!("it is not a ZIP archive, or its end is missing ({size} bytes)"))
}

/// The entry that lies at `at`, its member within the archive, and where the next entry lies.
fn entry(archive: &[u8], at: usize) -> Result<(Entry, usize)> {
    ensure!(
        slice(archive, at, 4)? == ENTRY,
        "the archive's list of members is damaged at byte {at}"
    );
    let short = |offset| u16_at(archive, at + offset).map(usize::from);
    let long = |offset| u32_at(archive, at + offset);
    let (flags, method) = (short(8)?, short(10)?);
    let (name_len, extra_len, comment_len) = (short(28)?, short(30)?, short(32)?);
    let name = slice(archive, at + ENTRY_SIZE, name_len)?;
    let name = String::from_utf8_lossy(name).into_owned();
    let extra = slice(archive, at + ENTRY_SIZE + name_len, extra_len)?;
    let numbers = [long(24)?, long(20)?, long(42)?];
    let [size, packed, local] =
        wide(numbers, extra).map_err(|e| unfit!("member \"{name}\": {e}"))?;
    if method != 0 {
        bail!(
            "member \"{name}\" is compressed (method {method}): write the file with numpy.savez, \
             not numpy.savez_compressed"
        );
    }
    ensure!(flags & 1 == 0, "member \"{name}\" is encrypted");
    ensure!(packed == size, "member \"{name}\" is stored in {packed} bytes but has {size}");
    ensure!(slice(archive, local, 4)? == LOCAL, "member \"{name}\" does not begin at byte {local}");
    let skipped =
        usize::from(u16_at(archive, local + 26)?) + usize::from(u16_at(archive, local + 28)?);
    let begin = local + LOCAL_SIZE + skipped;
    let end = begin + slice(archive, begin, size)?.len();
    let entry = Entry { name, place: local..end, begin, crc32: long(16)? };
    Ok((entry, at + ENTRY_SIZE + name_len + extra_len + comment_len))
}

/// `numbers`, but for those that are all ones the next number of the extra field with 64 bits each.
fn wide(numbers: [u32; 3], mut extra: &[u8]) -> Result<[usize; 3]> {
    let mut field: &[u8] = &[];
    while extra.len() >= 4 {
        let [id, len] = [u16_at(extra, 0)?, u16_at(extra, 2)?];
        if id == WIDE {
            field = slice(extra, 4, usize::from(len))?;
            break;
        }
        extra = extra.get(4 + usize::from(len)..).unwrap_or_default();
    }
    let mut widened = [0; 3];
    for (widened, number) in widened.iter_mut().zip(numbers) {
        *widened = number as usize;
        if number == u32::MAX {
            let (first, rest) = field
                .split_first_chunk()
                .ok_or_else(|| unfit!("its size or place needs 64 bits, which are missing"))?;
            let number = u64::from_le_bytes(*first);
            *widened =
                usize::try_from(number).map_err(|_| unfit!("{number} bytes are too many"))?;
            field = rest;
        }
    }
    Ok(widened)
}

fn slice(bytes: &[u8], at: usize, len: usize) -> Result<&[u8]> {
    let found = at.checked_add(len).and_then(|end| bytes.get(at..end));
    found.ok_or_else(|| {
        let size = bytes.len();
        unfit!("the archive is truncated: {len} bytes are expected at byte {at}, but it has {size}")
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    let mut value = [0; 2];
    value.copy_from_slice(slice(bytes, at, 2)?);
    Ok(u16::from_le_bytes(value))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let mut value = [0; 4];
    value.copy_from_slice(slice(bytes, at, 4)?);
    Ok(u32::from_le_bytes(value))
}

/// The bytes of an archive of `members`, each a name and its bytes, as [`members`] reads them.
pub(super) fn archive(members: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let (mut archive, mut list) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for (name, bytes) in members {
        ensure!(names.insert(name), "the archive is to hold \"{name}\" twice");
        let (start, size) = (word(archive.len(), name)?, word(bytes.len(), name)?);
        // Version 2.0, no flags, stored, at midnight of 1980-01-01, ZIP's first day.
        let mut about = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        about.extend([crc32fast::hash(bytes).to_le_bytes(), size, size].concat());
        let length = u16::try_from(name.len());
        let length =
            length.map_err(|_| unfit!("the name \"{name}\" is too long for an archive"))?;
        about.extend([length.to_le_bytes(), [0; 2]].concat());
        archive.extend([LOCAL, &about, name.as_bytes(), bytes].concat());
        let rest = [&[0; 10], &start[..]].concat();
        list.extend([ENTRY, &[20, 0], &about, &rest, name.as_bytes()].concat());
    }
    let count = u16::try_from(members.len());
    let count = count.map_err(|_| unfit!("{} members are too many", members.len()))?.to_le_bytes();
    let (size, start) = (word(list.len(), "list")?, word(archive.len(), "list")?);
    archive.extend(&list);
    archive.extend([END, &[0; 4], &count, &count, &size, &start, &[0; 2]].concat());
    Ok(archive)
}

/// A size or an offset as an archive has it.
fn word(n: usize, name: &str) -> Result<[u8; 4]> {
    let fits = u32::try_from(n).ok().filter(|n| *n < u32::MAX);
    let fits = fits.ok_or_else(|| unfit!("with \"{name}\" the archive is larger than 4 GiB"))?;
    Ok(fits.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_zips() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
    }

    /// Where the header of each entry of the list lies.
    fn list(archive: &[u8]) -> Vec<usize> {
        (0..archive.len() - 4).filter(|at| archive[*at..].starts_with(ENTRY)).collect()
    }

    #[test]
    fn members_that_share_bytes_are_refused() {
        let member = |name: &str| (name.to_string(), vec![7; 100]);
        let sound = archive(&[member("a"), member("b")]).unwrap();
        assert_eq!(members(&sound).unwrap().len(), 2);
        let at = list(&sound);
        let changed = |offset: usize, value: &[u8]| {
            let mut bytes = sound.clone();
            bytes[offset..offset + value.len()].copy_from_slice(value);
            members(&bytes).unwrap_err().to_string()
        };
        // The second entry names the first one's bytes.
        let first = sound[at[0] + 42..at[0] + 46].to_vec();
        assert!(changed(at[1] + 42, &first).contains("\"a\" and \"b\" of the archive overlap"));
        // The last member reaches into the list.
        let longer = 110_u32.to_le_bytes();
        let reached = changed(at[1] + 20, &[longer, longer].concat());
        assert!(reached.contains("\"b\" runs past byte"), "{reached}");
    }

    /// An archive of one member, with size and place in the 64 bits that `extra` holds.
    fn widened(extra: &[u8]) -> Vec<u8> {
        let mut bytes = archive(&[("a".to_string(), vec![7; 100])]).unwrap();
        let at = list(&bytes)[0];
        for offset in [20, 24, 42] {
            bytes[at + offset..at + offset + 4].fill(0xFF);
        }
        bytes[at + 30..at + 32].copy_from_slice(&(extra.len() as u16).to_le_bytes());
        let behind_the_name = at + ENTRY_SIZE + 1;
        bytes.splice(behind_the_name..behind_the_name, extra.iter().copied());
        bytes
    }

    #[test]
    fn sizes_and_places_of_64_bits_are_read() {
        // Behind a field of another kind.
        let other = [9, 0, 2, 0, 1, 1];
        let field = |numbers: &[u64]| {
            let numbers =
                numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
            [&other[..], &[1, 0, numbers.len() as u8, 0], &numbers].concat()
        };
        let bytes = widened(&field(&[100, 100, 0]));
        assert_eq!(members(&bytes).unwrap()[0].bytes, [7; 100]);
        let refused = |extra: &[u8]| members(&widened(extra)).unwrap_err().to_string();
        let missing = "member \"a\": its size or place needs 64 bits, which are missing";
        assert_eq!(refused(&[]), missing);
        assert_eq!(refused(&other), missing);
        assert_eq!(refused(&field(&[100, 100])), missing);
        assert!(refused(&field(&[u64::MAX, u64::MAX, 0])).contains("the archive is truncated"));
        assert!(refused(&field(&[1 << 40, 1 << 40, 0])).contains("the archive is truncated"));
        assert!(refused(&[1, 0, 99, 0, 1]).contains("truncated"));
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let refused = |bytes: &[u8]| members(bytes).unwrap_err().to_string();
        assert_eq!(refused(b""), "0 bytes are too few for a ZIP archive");
        assert!(refused(&[7; 100]).contains("(100 bytes)"));
    }
}
