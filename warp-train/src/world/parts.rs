//! Several byte strings as one, each behind its length.

/// The parts, one after the other.
pub(crate) fn join(parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let n_bytes = parts.iter().map(|part| part.as_ref().len() + 8).sum();
    let mut all = Vec::with_capacity(n_bytes);
    for part in parts {
        all.extend((part.as_ref().len() as u64).to_le_bytes());
        all.extend(part.as_ref());
    }
    all
}

/// The parts of [`join`]; nothing if the bytes are not of it.
pub(crate) fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let (part, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        parts.push(part.to_vec());
        bytes = rest;
    }
    Some(parts)
}
