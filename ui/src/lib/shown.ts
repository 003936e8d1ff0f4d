import { useEffect, useRef } from "react";

/** Whether the component is still shown: what an answer that comes late must not take for granted. */
export function useIsShown(): () => boolean {
  const isShown = useRef(false);
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  return () => isShown.current;
}
