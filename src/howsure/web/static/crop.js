// The middle of a picture, cut out here: the server is given less to look at.

const CUT = 0.1; // of each side's length, for each step

/**
 * @param {Blob} picture
 * @param {number} severity from 0, as it is, to 5, half as wide and half as high
 * @returns {Promise<Blob>}
 */
export async function cropped(picture, severity) {
  if (severity === 0) return picture;
  const whole = await createImageBitmap(picture).catch(() => null);
  if (!whole) throw new Error("This browser cannot open the picture, so it cannot crop it.");
  const kept = 1 - CUT * severity;
  const [width, height] = [Math.max(1, Math.round(kept * whole.width)), Math.max(1, Math.round(kept * whole.height))];
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const [left, top] = [Math.floor((whole.width - width) / 2), Math.floor((whole.height - height) / 2)];
  canvas.getContext("2d")?.drawImage(whole, -left, -top);
  whole.close();
  const content = await new Promise((/** @type {(blob: Blob | null) => void} */ done) => canvas.toBlob(done, "image/png"));
  if (!content) throw new Error("The picture is too large to be cropped here.");
  return new File([content], picture instanceof File ? picture.name : "pasted picture");
}
