//! The field GF(2^8) of the code, as tables: products byte by byte, and what kernels look up.
//!
//! Its polynomial is x^8 + x^4 + x^3 + x^2 + 1 (0x11d), which is part of the format. GFNI's own
//! multiplication has another one, so a kernel multiplies by a matrix of bits instead. All tables
//! are computed at build time, from doubling alone.

/// Factors and bytes there are.
const ELEMENTS: usize = 256;
/// The polynomial without its highest power: what a byte that was doubled past eight bits is reduced by.
pub(super) const POLYNOMIAL: u8 = 0x1d;

/// The product of each factor with each byte.
pub(super) static PRODUCTS: [[u8; ELEMENTS]; ELEMENTS] = products();

/// For each factor its products with 0 to 15, then those with 0, 16 to 240: a byte's product is
/// the sum of its low and its high half's.
pub(super) static NIBBLES: [[u8; 32]; ELEMENTS] = nibbles();

/// For each factor the matrix of bits that multiplies by it, as `gf2p8affineqb` takes it: bit j of
/// byte 7 - i says whether bit j of a byte counts for bit i of its product.
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) static BIT_MATRICES: [u64; ELEMENTS] = bit_matrices();

const fn doubled(byte: u8) -> u8 {
    (byte << 1) ^ (if byte & 0x80 == 0 { 0 } else { POLYNOMIAL })
}

#[expect(clippy::large_stack_arrays, reason = "only the compiler runs it")]
const fn products() -> [[u8; ELEMENTS]; ELEMENTS] {
    let mut products = [[0; ELEMENTS]; ELEMENTS];
    let mut factor: u8 = 0;
    loop {
        let row = &mut products[factor as usize];
        let mut byte = 1;
        while byte < ELEMENTS {
            row[byte] = doubled(row[byte / 2]) ^ (if byte % 2 == 0 { 0 } else { factor });
            byte += 1;
        }
        if factor == u8::MAX {
            return products;
        }
        factor += 1;
    }
}

const fn nibbles() -> [[u8; 32]; ELEMENTS] {
    let mut nibbles = [[0; 32]; ELEMENTS];
    let mut factor = 0;
    while factor < ELEMENTS {
        let mut nibble = 0;
        while nibble < 16 {
            nibbles[factor][nibble] = PRODUCTS[factor][nibble];
            nibbles[factor][16 + nibble] = PRODUCTS[factor][nibble << 4];
            nibble += 1;
        }
        factor += 1;
    }
    nibbles
}

#[cfg(any(test, target_arch = "x86_64"))]
const fn bit_matrices() -> [u64; ELEMENTS] {
    let mut matrices = [0; ELEMENTS];
    let mut factor = 0;
    while factor < ELEMENTS {
        let mut row = 0;
        while row < 8 {
            let mut column = 0;
            while column < 8 {
                let counts = PRODUCTS[factor][1 << column] >> row & 1;
                matrices[factor] |= (counts as u64) << (8 * (7 - row) + column);
                column += 1;
            }
            row += 1;
        }
        factor += 1;
    }
    matrices
}

#[cfg(test)]
mod tests {
    use reed_solomon_erasure::galois_8;

    use super::*;

    #[test]
    fn products_are_the_references() {
        for factor in 0..=u8::MAX {
            for byte in 0..=u8::MAX {
                let product = PRODUCTS[usize::from(factor)][usize::from(byte)];
                assert_eq!(product, galois_8::mul(factor, byte), "{factor} * {byte}");
            }
        }
    }

    #[test]
    fn halves_and_bits_give_the_products() {
        for (factor, products) in PRODUCTS.iter().enumerate() {
            for byte in 0..=u8::MAX {
                let expected = products[usize::from(byte)];
                let table = NIBBLES[factor];
                let halves = table[usize::from(byte & 15)] ^ table[16 + usize::from(byte >> 4)];
                assert_eq!(halves, expected, "{factor} * {byte}");
                let matrix = BIT_MATRICES[factor].to_be_bytes();
                let bits = (0..8).fold(0_u8, |bits, row: usize| {
                    bits | u8::from((matrix[row] & byte).count_ones() % 2 == 1) << row
                });
                assert_eq!(bits, expected, "{factor} * {byte}");
            }
        }
    }
}
