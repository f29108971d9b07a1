package io.kvtier.layout.encoding;

/**
 * Encodes and decodes one granule, without its checksum. Not safe for several threads. The arrays
 * are the caller's own.
 */
interface GranuleCoder {
  /**
   * Encodes a granule.
   *
   * @param encoded all zero up to the codes
   * @return false when the granule does not fit
   */
  boolean encode(byte[] raw, byte[] encoded);

  /**
   * Decodes a granule.
   *
   * @return false when the bytes are those of no granule: {@code raw} has no meaning then
   */
  boolean decode(byte[] encoded, byte[] raw);
}
