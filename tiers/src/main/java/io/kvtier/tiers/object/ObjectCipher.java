package io.kvtier.tiers.object;

import io.kvtier.tiers.transfer.Pool;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.function.Consumer;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import org.jspecify.annotations.Nullable;

/**
 * Encrypts stored bytes and decrypts them: AES-256-GCM (NIST SP 800-38D), with a random nonce of 96
 * bits a block and the object's header as additional authenticated data. All memory is native. Safe
 * for several threads.
 */
public final class ObjectCipher {
  /** The cipher of a header whose block is not encrypted. */
  static final byte NOT_ENCRYPTED = 0;

  /** The cipher of a header whose block is encrypted. */
  static final byte AES_256_GCM = 1;

  static final int NONCE_BYTES = 12;

  /** The bytes that encryption adds to a block. */
  public static final int TAG_BYTES = 16;

  private final Pool<Cipher> ciphers = new Pool<>(ObjectCipher::newCipher);
  private final CipherKeys keys;
  private final boolean readsUnencrypted;
  private final Consumer<byte[]> nonces;

  /**
   * A cipher with some keys.
   *
   * @param readsUnencrypted also reads objects that are not encrypted: anyone who can write to the
   *     store can then make any bytes a block
   */
  public ObjectCipher(CipherKeys keys, boolean readsUnencrypted) {
    this(keys, readsUnencrypted, new SecureRandom()::nextBytes);
  }

  /** With nonces of the caller's, no two of which may be equal. */
  ObjectCipher(CipherKeys keys, boolean readsUnencrypted, Consumer<byte[]> nonces) {
    this.keys = keys;
    this.readsUnencrypted = readsUnencrypted;
    this.nonces = nonces;
  }

  boolean readsUnencrypted() {
    return readsUnencrypted;
  }

  /** The id of the key that encrypts. */
  public long writingKey() {
    return keys.writing().id;
  }

  /** Whether there is the key with this id. */
  boolean hasKey(long id) {
    return keys.byId(id) != null;
  }

  /** One that was never there before, but for one chance in many. */
  public byte[] nextNonce() {
    byte[] nonce = new byte[NONCE_BYTES];
    nonces.accept(nonce);
    return nonce;
  }

  /**
   * Encrypts.
   *
   * @param nonce a new one
   * @param header authenticated with the bytes
   * @param target gets as many bytes, and the tag behind them; may be where the plain bytes are
   */
  public void encrypt(byte[] nonce, byte[] header, MemorySegment plain, MemorySegment target) {
    Cipher cipher = ciphers.take();
    try {
      begin(cipher, Cipher.ENCRYPT_MODE, keys.writing(), nonce, header);
      cipher.doFinal(plain.asByteBuffer(), target.asByteBuffer());
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(
          plain.byteSize() + " bytes can't be encrypted into " + target.byteSize(), e);
    } finally {
      ciphers.give(cipher);
    }
  }

  /**
   * Decrypts what {@link #encrypt} made.
   *
   * @param keyId of a key that is there
   * @param encrypted with the tag at its end
   * @param plain as long without it; may be where the encrypted bytes are
   * @return whether these are the bytes and this is the header that were encrypted with the key; if
   *     not, the plain bytes are anything
   */
  public boolean decrypt(
      long keyId, byte[] nonce, byte[] header, MemorySegment encrypted, MemorySegment plain) {
    CipherKey key = keys.byId(keyId);
    if (key == null) {
      throw new IllegalArgumentException("there is no key " + CipherKey.text(keyId));
    }
    Cipher cipher = ciphers.take();
    try {
      begin(cipher, Cipher.DECRYPT_MODE, key, nonce, header);
      ByteBuffer source = encrypted.asByteBuffer();
      cipher.doFinal(source, plain.asByteBuffer());
      return true;
    } catch (AEADBadTagException e) {
      return false;
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(
          encrypted.byteSize() + " bytes can't be decrypted into " + plain.byteSize(), e);
    } finally {
      ciphers.give(cipher);
    }
  }

  private static Cipher newCipher() {
    try {
      return Cipher.getInstance("AES/GCM/NoPadding");
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has AES-GCM", e);
    }
  }

  private static void begin(Cipher cipher, int mode, CipherKey key, byte[] nonce, byte[] header)
      throws GeneralSecurityException {
    cipher.init(mode, key.secret, new GCMParameterSpec(TAG_BYTES * Byte.SIZE, nonce));
    cipher.updateAAD(header);
  }

  /** For people: the ids of its keys. */
  static String describe(@Nullable ObjectCipher cipher) {
    return cipher == null ? "no key" : cipher.keys.toString();
  }
}
